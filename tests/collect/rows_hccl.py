"""Rows of rank tables."""

from __future__ import annotations

import msgspec

from ascend_doctor.collect.hccl import parse_rank_table

from .sample_facts import Facts, Rows


def ranks(text: str) -> Facts:
    table = parse_rank_table(text)
    return {
        **msgspec.structs.asdict(table),
        "ids": [(rank.rank, rank.server, rank.device, rank.address) for rank in table.ranks],
        "ports": [(rank.device_port, rank.host_port) for rank in table.ranks],
        "super": [rank.super_device for rank in table.ranks],
    }


ROWS: Rows = {
    "hccl/rank_table-a2-v1.0.json.txt": (
        ranks,
        {
            "version": "1.0",
            "status": "completed",
            "counted": 2,
            "ids": [
                (0, "node_0", 0, "192.0.2.8"),
                (1, "node_0", 1, "192.0.2.9"),
                (2, "node_1", 0, "198.51.100.8"),
                (3, "node_1", 1, "198.51.100.9"),
            ],
            "problem": None,
        },
    ),
    "hccl/rank_table-a3-v1.2.json.txt": (
        ranks,
        {
            "version": "1.2",
            "super": [0, 1, 4, 5],
            "pods": {"node_0": "0", "node_1": "0"},
            "ports": [(16666, 16665), (16666, 16666)] * 2,
        },
    ),
    "hccl/rank_table-910-legacy-group_list.json.txt": (
        ranks,
        {
            "version": "",
            "status": "completed",
            "ids": [(None, "node_0", 0, "192.0.2.8"), (None, "node_1", 1, "192.0.2.9")],
        },
    ),
    "hccl/rank_table-950-v2.0.json.txt": (
        ranks,
        {
            "version": "2.0",
            "counted": 2,
            "ids": [
                (0, "az0-rack0-pod0", 0, "192.0.2.10"),
                (1, "az0-rack0-pod0", 1, "192.0.2.11"),
            ],
            "ports": [(16666, 60001), (16667, 60002)],
        },
    ),
}
