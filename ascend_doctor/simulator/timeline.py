"""The virtual time line of ranks (runtime/clock.c), as Perfetto and chrome://tracing read it."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from ascend_doctor.errors import DataError
from ascend_doctor.machine.files import read_bytes, why_not_written, write_whole

TIMELINE = "ASCEND_SIMULATOR_TIMELINE"
_LIMIT = 1 << 28


def prepare_trace(scratch: Path, target: str, env: Mapping[str, str]) -> str:
    """The folder for rows. Raises DataError where there will be none, or ``target`` is no place."""
    if "ASCEND_SIMULATOR_CLOCK" not in env:
        raise DataError(
            "--trace: no bandwidths of this chip are documented, so it has no time line"
        )
    if why := why_not_written(target):
        raise DataError(f"{target}: {why}")
    folder = scratch / "timeline"
    folder.mkdir(mode=0o700)
    return str(folder)


def write_trace(folder: Path, target: str) -> int:
    """Write the rows of all ranks to ``target`` as trace events; gives their number.

    Raises DataError where it cannot be written.
    """
    events = [event for path in sorted(folder.glob("*.tsv")) for event in _events(path)]
    write_whole(target, msgspec.json.encode({"traceEvents": events}))
    return len(events)


def _events(path: Path) -> Iterator[dict[str, Any]]:
    """``ts`` and ``dur`` in microseconds; a process is a rank, a thread a stream."""
    rank = int(path.stem.partition("-")[0])
    name = {"name": f"rank {rank}, simulated"}
    yield {"ph": "M", "name": "process_name", "pid": rank, "args": name}
    for line in read_bytes(path, _LIMIT).decode("utf-8", "replace").splitlines():
        stream, begin, duration, operator = line.split("\t", 3)
        yield {
            "ph": "X",
            "name": operator,
            "pid": rank,
            "tid": int(stream),
            "ts": float(begin),
            "dur": float(duration),
        }
