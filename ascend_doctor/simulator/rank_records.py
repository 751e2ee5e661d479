"""What ranks at true size wrote of their memory (operators/peaks.py)."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec

from ascend_doctor.errors import DataError
from ascend_doctor.machine.files import read_bytes

RECORDS = "ASCEND_SIMULATOR_TRUE_SIZE"
_LIMIT = 1 << 20


class RankRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of a rank. ``lines`` are of the call that made the peak, the innermost first."""

    rank: int
    pid: int
    steps: int
    allocated: int
    reserved: int
    sampled: int
    operator: str
    lines: tuple[str, ...]
    moments: dict[str, int]
    assumptions: tuple[str, ...]


def make_records(folder: Path) -> Path:
    records = folder / "ranks"
    records.mkdir(mode=0o700)
    return records


def read_records(folder: Path) -> list[RankRecord]:
    """Of each rank the record with the most steps: a helper process may have its number, too."""
    records: dict[int, RankRecord] = {}
    for path in sorted(folder.glob("rank-*.json")):
        with contextlib.suppress(DataError, msgspec.MsgspecError):
            record = msgspec.json.decode(read_bytes(path, _LIMIT), type=RankRecord)
            known = records.get(record.rank)
            if known is None or (record.steps, record.allocated) > (known.steps, known.allocated):
                records[record.rank] = record
    return [records[rank] for rank in sorted(records)]
