"""Journals of the simulated HCCL: four ranks, made here as runtime/journal.c writes them."""

import pytest

from ascend_doctor.diagnosis import journal
from ascend_doctor.diagnosis.journal import parse_journal
from ascend_doctor.diagnosis.stall_files import ProcessState, StallFiles
from ascend_doctor.diagnosis.stall_result import Stall
from ascend_doctor.errors import DataError
from tests.present import present

RANKS = 4
# operation, elements, state: 1 begun, 2 ended
Call = tuple[str, int, int]
SUM, WAITS = ("AllReduce", 8, 2), ("AllReduce", 8, 1)


def write_journal(calls: list[Call], *, ranks: int = RANKS) -> bytes:
    data = bytearray(journal._BYTES)
    journal._HEAD.pack_into(data, 0, journal._MAGIC, 7, ranks, len(calls), 1)
    members = [*range(RANKS), *[0] * (1024 - RANKS)]
    journal._GROUP.pack_into(data, journal._HEAD.size, b"key", b"group_name_0", RANKS, *members)
    for at, (operation, count, state) in enumerate(calls):
        position = journal._CALLS_AT + at * journal._CALL.size
        row = (at + 1, at + 1, count, 1.5, 0, 4, -1, state, operation.encode())
        journal._CALL.pack_into(data, position, *row)
    return bytes(data)


def judge(*ranks: list[Call], **ended: str) -> Stall:
    files = StallFiles()
    for rank, calls in enumerate(ranks):
        files.journals[rank] = parse_journal(write_journal(calls), rank, "x")
    for name, how in ended.items():
        rank = int(name.removeprefix("rank"))
        files.states[rank] = ProcessState(rank=rank, state="gone", ended=how)
    return present(files.judge())


def test_calls_are_read_in_order() -> None:
    trace = parse_journal(write_journal([SUM, ("Broadcast", 3, 1)]), 2, "x")
    assert [(call.operation, call.number, call.done, call.agreed) for call in trace.calls] == [
        ("allreduce", 1, True, "8 fp32"),
        ("broadcast", 2, False, "3 fp32"),
    ]
    assert trace.groups["group_name_0"].ranks == (0, 1, 2, 3)


def test_a_process_without_a_place_in_the_job_is_no_rank() -> None:
    assert parse_journal(write_journal([SUM], ranks=2), 0, "x").groups["group_name_0"].ranks == ()


@pytest.mark.parametrize("data", [b"", b"simulated calls\0", b"x" * journal._BYTES])
def test_another_file_is_refused(data: bytes) -> None:
    with pytest.raises(DataError, match="x: not a journal"):
        parse_journal(data, 0, "x")


def test_the_rank_that_entered_nothing_is_named_with_its_last_call() -> None:
    (absent,) = judge([SUM, WAITS], [SUM, WAITS], [SUM], [SUM, WAITS]).absent
    assert (absent.rank, absent.kind) == (2, "elsewhere")
    assert absent.reason.endswith("its last call was allreduce number 1 of group_name_0")


def test_of_two_that_did_not_join_the_one_that_ended_first_is_named() -> None:
    (absent,) = judge([SUM, WAITS], [SUM], [SUM], [SUM, WAITS], rank2="signal 9").absent
    assert (absent.rank, absent.kind) == (2, "gone")
    assert absent.reason.startswith("its process has ended with signal 9")


def test_another_size_is_named_only_of_a_minority() -> None:
    other = ("AllReduce", 9, 1)
    (absent,) = judge([SUM, other], [SUM, WAITS], [SUM, WAITS], [SUM, WAITS]).absent
    assert absent.rank == 0
    assert "it passed 9 fp32 to allreduce number 2" in absent.reason
    assert not judge([SUM, other], [SUM, other], [SUM, WAITS], [SUM, WAITS]).absent
