"""A job that runs now, whatever started it: its ranks, and where each of them is."""

import contextlib
import itertools
import os
import socket
import stat
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from ascend_doctor.commands.rehearsed_end import JOURNAL
from ascend_doctor.commands.stall_watch import keep_plogs
from ascend_doctor.diagnosis.stacks import Frame, main_frames, parse_py_spy, program_frame
from ascend_doctor.diagnosis.stall_files import ProcessState
from ascend_doctor.errors import DataError
from ascend_doctor.machine.files import read_bytes, write_whole
from ascend_doctor.machine.processes import (
    KernelCall,
    dump_stacks,
    environment_of,
    find_lock_holders,
    kernel_call,
    parent_of,
    process_ids,
    processor_seconds,
    state_of,
)

# Launchers' variables: torchrun and its imitators; Open MPI and CANN's mpirun; Slurm.
_VARIABLES = (
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
)
_JOB = ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID")
# torch_npu's ProcessGroupHCCL.hpp: a rank's pipe for requests, and its dump; its number ends both.
_PIPE, _DUMP = "TORCH_HCCL_DEBUG_INFO_PIPE_FILE", "TORCH_HCCL_DEBUG_INFO_TEMP_FILE"
_ASK = b"1\n"
_ANSWER_SECONDS = 10.0
_DUMP_BYTES = 256 << 20
_AT_ONCE = 8
_LOOK_SECONDS = 1.0
_LEAST_LOOKS = 3
_LONGER = 4
# Of a source file, for the text of one line.
_SOURCE_BYTES = 4 << 20
_HELPERS = 8
_MAPS_BYTES = 64 << 20


@dataclass(frozen=True)
class RunningRank:
    rank: int
    world_size: int
    pid: int
    env: Mapping[str, str] = field(repr=False)
    helpers: tuple[int, ...] = ()


class RunningJob(msgspec.Struct, frozen=True):
    """Ranks of one job on this machine; ``launcher`` is the process that started them."""

    ranks: tuple[RunningRank, ...]
    launcher: int

    @property
    def world_size(self) -> int:
        return max(rank.world_size for rank in self.ranks)


def find_jobs() -> list[RunningJob]:
    """All jobs here whose processes this user may read, the oldest first."""
    environments = {pid: env for pid in process_ids() if (env := environment_of(pid))}
    parents = {pid: parent_of(pid) for pid in environments}
    for names in _VARIABLES:
        if jobs := _jobs(environments, parents, names):
            return jobs
    return []


def _jobs(
    environments: Mapping[int, Mapping[str, str]],
    parents: Mapping[int, int],
    names: tuple[str, str],
) -> list[RunningJob]:
    keys = {pid: key for pid, env in environments.items() if (key := _key(env, names))}
    # Processes that a rank starts have its variables; the rank is the first.
    firsts = [pid for pid in sorted(keys) if keys.get(parents[pid]) != keys[pid]]
    groups: dict[tuple[str, ...], list[RunningRank]] = {}
    for pid in firsts:
        helpers = tuple(child for child in sorted(keys) if parents[child] == pid)
        env = environments[pid]
        number, size = (int(env[name]) for name in names)
        rank = RunningRank(number, size, pid, env, helpers[:_HELPERS])
        groups.setdefault((*keys[pid][1:], str(parents[pid])), []).append(rank)
    jobs = [
        RunningJob(tuple(sorted(ranks, key=lambda rank: rank.rank)), parents[ranks[0].pid])
        for ranks in groups.values()
    ]
    return sorted(jobs, key=lambda job: job.ranks[0].pid)


def _key(env: Mapping[str, str], names: tuple[str, str]) -> tuple[str, ...]:
    """Rank and job that a process says it is of; empty for none."""
    rank, size = (env.get(name, "") for name in names)
    if not (rank.isascii() and rank.isdecimal() and size.isascii() and size.isdecimal()):
        return ()
    return (rank, size, *(env.get(name, "") for name in _JOB))


def belongs(job: RunningJob, pid: int) -> bool:
    members = {rank.pid for rank in job.ranks} | {pid for r in job.ranks for pid in r.helpers}
    above = job.launcher
    while above > 1:
        members.add(above)
        above = parent_of(above)
    return pid in members


@dataclass
class Looks:
    """``refusal`` is why the rank's stack could not be read."""

    stacks: list[tuple[Frame, ...]] = field(default_factory=list)
    data: bytes = b""
    refusal: str = ""
    call: KernelCall | None = None
    began: float = 0.0
    used: float = 0.0

    @property
    def moved(self) -> bool:
        return len(set(self.stacks)) > 1


class Observer:
    """Looks at the ranks of a job again and again, and says nothing to them."""

    def __init__(self, job: RunningJob) -> None:
        self.job = job
        self.looks = {rank.rank: Looks() for rank in job.ranks}

    def watch(self, seconds: float, step: Callable[[float], None] = lambda _: None) -> float:
        """Look about once a second, and say for how many; ``step`` gets the elapsed share."""
        for rank in self.job.ranks:
            self.looks[rank.rank].began = processor_seconds(rank.pid)
        begin, number = time.monotonic(), 0
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            while number < _LEAST_LOOKS or time.monotonic() - begin < seconds * self._factor():
                look = time.monotonic()
                for _ in pool.map(self._look, self.job.ranks):
                    step(min((time.monotonic() - begin) / seconds, 1.0) if seconds else 1.0)
                number += 1
                time.sleep(max(0.0, _LOOK_SECONDS - (time.monotonic() - look)))
        passed = time.monotonic() - begin
        for rank in self.job.ranks:
            looks = self.looks[rank.rank]
            looks.used = max(processor_seconds(rank.pid) - looks.began, 0.0) / passed
        return passed

    def _factor(self) -> int:
        """More looks for a rank that computes and was seen at one place only."""
        looks = ((rank.pid, self.looks[rank.rank]) for rank in self.job.ranks)
        computes = any(
            not seen.moved and processor_seconds(pid) > seen.began for pid, seen in looks
        )
        return _LONGER if computes else 1

    def _look(self, rank: RunningRank) -> None:
        looks = self.looks[rank.rank]
        looks.data, looks.refusal = dump_stacks(rank.pid)
        with contextlib.suppress(DataError):
            if looks.data and (frames := main_frames(parse_py_spy(looks.data, "py-spy"))):
                looks.stacks.append(frames)
        looks.call = kernel_call(rank.pid)

    def ask_recorders(self, folder: Path) -> None:
        """Have each armed rank dump its recorder, and keep the dumps."""
        asked = {
            rank.rank: f"{rank.env[_DUMP]}{rank.rank}" for rank in self.job.ranks if _ask(rank)
        }
        end = time.monotonic() + _ANSWER_SECONDS
        for number, path in asked.items():
            size = -1
            while time.monotonic() < end:
                # It is whole once it stops growing.
                before, size = size, _fresh_size(path)
                if size == before and size > 0:
                    break
                time.sleep(_LOOK_SECONDS / 4)
            with contextlib.suppress(DataError):
                if _fresh_size(path) > 0:
                    data = read_bytes(path, _DUMP_BYTES)
                    write_whole(str(folder / f"hccl_trace_rank_{number}"), data)
        for rank in self.job.ranks:
            if journal := rank.env.get(JOURNAL):
                with contextlib.suppress(DataError):
                    calls = read_bytes(f"{journal}/rank-{rank.rank}.calls", _DUMP_BYTES)
                    write_whole(str(folder / f"rank-{rank.rank}.calls"), calls)

    @property
    def goes_on(self) -> bool:
        """Whether the stack of every rank has changed."""
        return all(looks.moved for looks in self.looks.values())

    @property
    def has_ended(self) -> bool:
        """Whether no process of a rank is left."""
        return all(state_of(rank.pid) in {"Z", "gone"} for rank in self.job.ranks)

    @property
    def refusals(self) -> dict[str, list[int]]:
        """Why stacks could not be read, with their ranks."""
        reasons: dict[str, list[int]] = {}
        for rank, looks in self.looks.items():
            if not looks.stacks:
                reasons.setdefault(looks.refusal or "there is no Python in it", []).append(rank)
        return reasons

    def write(self, folder: Path) -> None:
        """Write what was seen, as `run` does at a stall."""
        holders = find_lock_holders({rank.pid: rank.rank for rank in self.job.ranks})
        for rank in self.job.ranks:
            looks = self.looks[rank.rank]
            if looks.data:
                write_whole(str(folder / f"rank-{rank.rank}.spy"), looks.data)
            for pid in rank.helpers:
                if stacks := dump_stacks(pid)[0]:
                    write_whole(str(folder / f"rank-{rank.rank}.helper-{pid}.spy"), stacks)
            state = self._state(rank, looks, holders.get(rank.pid))
            write_whole(str(folder / f"rank-{rank.rank}.state"), msgspec.json.encode(state))
            keep_plogs(folder, rank.pid, rank.env)
        for number in self._absent():
            state = ProcessState(rank=number, world_size=self.job.world_size, state="gone")
            write_whole(str(folder / f"rank-{number}.state"), msgspec.json.encode(state))

    def _state(self, rank: RunningRank, looks: Looks, holder: int | None) -> ProcessState:
        call = looks.call or KernelCall(name="")
        return ProcessState(
            rank=rank.rank,
            world_size=rank.world_size,
            host=socket.gethostname(),
            pid=rank.pid,
            state=state_of(rank.pid),
            dumped=False,
            lock_holder=holder,
            call=call.name,
            file=call.file,
            source=source_of(looks.stacks[-1]) if looks.stacks else "",
            moved=looks.moved,
            processor=round(looks.used, 3),
            npu=_may_use_npu(rank.pid),
        )

    def _absent(self) -> Iterable[int]:
        env = self.job.ranks[0].env
        size, node = env.get("LOCAL_WORLD_SIZE", ""), env.get("GROUP_RANK", "")
        if not (size.isdecimal() and node.isdecimal() and "GROUP_WORLD_SIZE" in env):
            return ()
        begin = int(node) * int(size)
        here = range(begin, min(begin + int(size), self.job.world_size))
        return sorted({*here} - {rank.rank for rank in self.job.ranks})


def _may_use_npu(pid: int) -> bool:
    """Whether a process has a library of torch_npu; True if unknown."""
    try:
        return b"torch_npu" in read_bytes(f"/proc/{pid}/maps", _MAPS_BYTES)
    except DataError:
        return True


def _ask(rank: RunningRank) -> bool:
    pipe = f"{rank.env.get(_PIPE, '')}{rank.rank}.pipe"
    if not (rank.env.get(_PIPE) and rank.env.get(_DUMP)):
        return False
    try:
        number = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        there = os.fstat(number)
        mine = stat.S_ISFIFO(there.st_mode) and there.st_uid == os.stat(f"/proc/{rank.pid}").st_uid
        return bool(mine and os.write(number, _ASK))
    except OSError:
        return False
    finally:
        os.close(number)


def _fresh_size(path: str) -> int:
    """The size of a recent dump; -1 for none."""
    with contextlib.suppress(OSError):
        there = os.stat(path)
        if time.time() - there.st_mtime < 2 * _ANSWER_SECONDS:
            return there.st_size
    return -1


def source_of(frames: Sequence[Frame]) -> str:
    """The program's innermost source line; "" if its file cannot be read."""
    frame = program_frame(frames)
    with contextlib.suppress(DataError, OSError):
        if frame and frame.line and frame.file.startswith("/"):
            text = read_bytes(frame.file, _SOURCE_BYTES).decode("utf-8", "replace")
            line = next(itertools.islice(text.splitlines(), frame.line - 1, None), "")
            return line.partition("  #")[0].strip()
    return ""
