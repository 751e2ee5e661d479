from pathlib import Path

import msgspec

from ascend_doctor.commands.rehearsed_ranks import describe_ranks
from ascend_doctor.simulator.rank_records import OperatorTime, RankRecord, StepTime, read_records

GIB = 1 << 30


def record(rank: int, allocated: int = 10 * GIB, steps: int = 3, pid: int = 1) -> RankRecord:
    return RankRecord(
        rank=rank,
        pid=pid,
        steps=steps,
        allocated=allocated,
        reserved=allocated + GIB,
        sampled=allocated,
        operator="aten::mm",
        lines=("/venv/torch/nn/linear.py:125 forward", "/job/model.py:7 forward"),
        moments={"first step": allocated},
        assumptions=("topk gives each expert as many rows as another",),
    )


def test_ranks_with_the_same_memory_are_one_line() -> None:
    records = [*map(record, range(4)), record(4, 20 * GIB)]
    lines = list(describe_ranks(records, 64 * GIB))
    assert lines[0] == "optimizer steps: 3; no loss, norm or time that was printed is real"
    assert lines[1].startswith("rank 4: 20 GiB allocated")
    assert lines[2] == (
        "ranks 0-3: 10 GiB allocated, 11 GiB reserved at most; 53 GiB of 64 GiB are free"
    )
    assert "the peak is in aten::mm, called at " in lines[3]
    assert lines[3].endswith("model.py:7 forward")
    assert lines[-1] == "assumed: topk gives each expert as many rows as another"


def test_without_a_record_nothing_is_claimed() -> None:
    assert list(describe_ranks([], GIB)) == ["no rank used an NPU"]


def test_the_process_that_trained_counts(tmp_path: Path) -> None:
    for each in (record(0, GIB, 0, 7), record(0, 2 * GIB, 3, 8)):
        (tmp_path / f"rank-0-{each.pid}.json").write_bytes(msgspec.json.encode(each))
    (tmp_path / "rank-1-9.json").write_text("{")
    assert read_records(tmp_path) == [record(0, 2 * GIB, 3, 8)]


def test_the_time_of_a_step_is_told_with_its_parts() -> None:
    step = StepTime(
        seconds=123.4, busy=98.72, cube=90, memory=30, starved=0, waited=24.68, calls=7,
        operators=(OperatorTime(operator="aten::mm", seconds=61.7, calls=4, lines=()),),
    )  # fmt: skip
    timed = msgspec.structs.replace(record(3), step=step)
    lines = list(describe_ranks([record(0), timed], 64 * GIB))
    parts = (
        "rank 3: arithmetic 60%, memory traffic 20%, waiting for transfers and other ranks 20%, "
        "waiting for the host 0%; 7 calls of operators"
    )
    time = "a step would take about 120 s (86 to 170 s), computed from the documented rates"
    assert lines[-4:-1] == [f"{time} of the chip", parts, "rank 3: aten::mm 50% in 4 calls"]
