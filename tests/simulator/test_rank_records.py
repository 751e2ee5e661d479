from pathlib import Path

import msgspec

from ascend_doctor.commands.rehearsed_ranks import describe_ranks
from ascend_doctor.simulator.rank_records import RankRecord, read_records

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
    assert lines[1] == (
        "ranks 0-3: 10 GiB allocated, 11 GiB reserved at most; 53 GiB of 64 GiB are free"
    )
    assert lines[2].startswith("rank 4: 20 GiB allocated")
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
