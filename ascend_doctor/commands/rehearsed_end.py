"""How a rehearsed command ended: which ranks ended first, and whether others waited for them."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ascend_doctor.commands.stall_watch import RankProcess, StallWatch
from ascend_doctor.diagnosis.recorder import TracedCall
from ascend_doctor.diagnosis.stall_files import ProcessState, StallFiles, read_stall_files
from ascend_doctor.errors import DataError
from ascend_doctor.machine.files import read_bytes, write_whole

JOURNAL = "ASCEND_SIMULATOR_JOURNAL"
# torch/distributed/elastic/multiprocessing/api.py: processes that ended before it ended others.
_FAILED = re.compile(rb"failed \(exitcode: (-?\d+)\) local_rank: \d+ \(pid: (\d+)\)")
# A rank that others await this long is not merely slower.
_SECONDS = 10.0
_LIMIT = 1 << 20


def explains_end(watch: StallWatch, log: str) -> bool:
    """Whether the ranks' calls explain the end; writes down which ended first."""
    if watch.is_stalled:
        return True
    files = read_stall_files([str(watch.folder)])
    heads = dict(_heads(files))
    if not heads:
        return False
    if watch.signalled:
        # Ranks that the signal ends leave others waiting: only earlier waits count.
        return watch.signalled - min(call.entered for call in heads.values()) > _SECONDS
    for rank, how in _first_ends(watch.folder, log):
        # A rank that waited at its end is a victim.
        if rank not in heads:
            state = ProcessState(rank=rank, state="gone", ended=how)
            write_whole(str(watch.folder / f"rank-{rank}.state"), msgspec.json.encode(state))
    return True


def _heads(files: StallFiles) -> Iterator[tuple[int, TracedCall]]:
    for rank, trace in files.journals.items():
        if (head := next((call for call in trace.calls if not call.done), None)) is not None:
            yield rank, head


def _first_ends(folder: Path, log: str) -> Iterator[tuple[int, str]]:
    processes: dict[int, int] = {}
    for path in folder.glob("rank-*.json"):
        with contextlib.suppress(DataError, msgspec.MsgspecError):
            rank = msgspec.json.decode(read_bytes(path, _LIMIT), type=RankProcess)
            processes[rank.pid] = rank.rank
    with open(log, "rb") as file:
        for line in file:
            for code, pid in _FAILED.findall(line):
                if int(pid) in processes:
                    number = int(code)
                    how = f"signal {-number}" if number < 0 else f"exit code {number}"
                    yield processes[int(pid)], how
