"""What ranks at true size wrote of their memory and time (operators/peaks.py, clock.py)."""

import contextlib
from pathlib import Path

import msgspec

from ascend_doctor.errors import DataError
from ascend_doctor.machine.files import read_bytes

RECORDS = "ASCEND_SIMULATOR_TRUE_SIZE"
_LIMIT = 1 << 20


class OperatorTime(msgspec.Struct, frozen=True, kw_only=True):
    """Of all calls in a step; ``lines`` are of the longest one, the innermost first."""

    operator: str
    seconds: float
    calls: int
    lines: tuple[str, ...]


class StepTime(msgspec.Struct, frozen=True, kw_only=True):
    """Virtual seconds of a rank's last step, and those of its stream by what it did.

    It was ``starved`` where the host had launched nothing, and ``waited`` for transfers and other
    ranks. Of operators of all streams ``cube`` and ``memory`` are what bounds them. ``operators``:
    the longest first.
    """

    seconds: float
    busy: float
    cube: float
    memory: float
    starved: float
    waited: float
    calls: int
    operators: tuple[OperatorTime, ...]


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
    step: StepTime | None = None


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
