"""What the parser gets of rank tables."""

import msgspec

from ascend_doctor.collect.hccl import parse_rank_table

from .sample_facts import Facts, Readers


def ranks(text: str) -> Facts:
    table = parse_rank_table(text)
    return {
        **msgspec.structs.asdict(table),
        "ids": [(rank.rank, rank.server, rank.device, rank.address) for rank in table.ranks],
        "super": [rank.super_device for rank in table.ranks],
    }


READERS: Readers = (("hccl/rank_table-*", ranks),)
