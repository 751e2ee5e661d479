import msgspec
import pytest

from ascend_doctor.facts import RankEntry, RankTable, Snapshot
from tests.checks.levels import cannot_tell, fails, passes, skips, warns
from tests.checks.machine import having, without
from tests.checks.server import a2, a3


def entry(number: int, **fields: object) -> RankEntry:
    address = f"192.0.2.{10 + number}"
    plain = RankEntry(
        rank=number, server="node_0", device=number, address=address, super_device=number
    )
    return msgspec.structs.replace(plain, **fields)


def table(facts: Snapshot, *ranks: RankEntry, **fields: object) -> Snapshot:
    plain = RankTable(
        path="/job/hccl.json", version="1.0", status="completed", counted=1, ranks=ranks
    )
    return msgspec.structs.replace(facts, rank_table=msgspec.structs.replace(plain, **fields))


EIGHT = tuple(entry(rank) for rank in range(8))


def test_a_rank_table_is_left_over() -> None:
    facts = having(a2(), "environment", withheld=("RANK_TABLE_FILE",))
    warns("rank-table", facts, "RANK_TABLE_FILE is set")
    passes("rank-table", table(facts, *EIGHT))
    warns("rank-table", table(facts, entry(0, address="192.0.2.99")), "RANK_TABLE_FILE is set")
    passes("rank-table", a2())


def test_a_table_that_fits() -> None:
    passes("rank-table-content", table(a2(), *EIGHT))
    pod = table(a3(), *EIGHT, version="1.2")
    passes("rank-table-content", pod)
    skips("rank-table-content", a2())
    cannot_tell("rank-table-content", without(a2(), "rank_table"), "not collected")


def test_a_table_that_cannot_be_used() -> None:
    facts = table(a2(), problem="is not JSON: no")
    fails("rank-table-content", facts, "/job/hccl.json is not JSON", "EI0004")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"status": "initializing"}, "'initializing'"),
        ({"version": "2.0"}, "version '2.0' on Atlas A2"),
        ({"counted": 2}, "server_count 2, 1 servers"),
        ({"ranks": EIGHT[1:]}, "7 ranks: 1-7"),
        ({"ranks": (*EIGHT[:7], entry(7, rank=None))}, "some without id"),
        ({"ranks": (entry(0, rank=None), entry(1, rank=None))}, "no ids"),
        ({"ranks": (entry(0), entry(1, address="192.0.2.10", device=9))}, "more than once"),
        ({"counted": 2, "ranks": (entry(0), entry(1, server="b"), entry(2))}, "alternate"),
        ({"counted": 2, "ranks": (entry(0), entry(1, server="b", address=None))}, "device_ip"),
    ],
)
def test_rules_of_the_table(fields: dict[str, object], words: str) -> None:
    fails("rank-table-content", table(a2(), *EIGHT, **fields), words)


def test_a_table_of_a_super_pod() -> None:
    facts = table(a3(), entry(0, super_device=None), version="1.2")
    fails("rank-table-content", facts, "super_device_id")


def test_stale_addresses() -> None:
    moved = (*EIGHT[:3], entry(3, address="192.0.2.99"), *EIGHT[4:])
    finding = fails("rank-table-content", table(a2(), *moved), "EI0014")
    assert finding.observed == "node_0 device 3: 192.0.2.99 in the table, 192.0.2.13 here"
    other = tuple(entry(rank, address=f"198.51.100.{rank}") for rank in range(8))
    fails("rank-table-content", table(a2(), *other), "none of the addresses of device 0-7")
    blind = having(table(a2(), *other), "hccn", devices=())
    passes("rank-table-content", blind)
