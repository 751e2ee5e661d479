"""A folder with what was gathered of a stall: dumps of recorders, stacks, states of processes.

``ascend-doctor run`` writes such a folder; dumps that PyTorch or torch_npu wrote themselves, with
their ``..._py_traceback`` beside them, are read as well, in any folder below.
"""

import contextlib
import gc
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from ascend_doctor.diagnosis.called_lines import (
    CalledLines,
    add_lines,
    find_mismatch,
    parse_called_lines,
)
from ascend_doctor.diagnosis.journal import parse_journal
from ascend_doctor.diagnosis.recorder import RankTrace, TracedCall, TracedGroup, is_dump, parse_dump
from ascend_doctor.diagnosis.stacks import (
    Frame,
    ThreadStack,
    main_frames,
    parse_faulthandler,
    parse_npu_traceback,
    parse_py_spy,
)
from ascend_doctor.diagnosis.stall_judge import judge_stall
from ascend_doctor.diagnosis.stall_result import Seen, Stall, Standing
from ascend_doctor.errors import DataError
from ascend_doctor.machine.files import open_descriptor, read_bytes, walk_folders
from ascend_doctor.machine.syntax import describe_json
from ascend_doctor.patterns import compile_beside

T = TypeVar("T")

_OPS = {"isend": "send", "irecv": "recv"}
_P2P = frozenset({"send", "recv", "isend", "irecv", "batch_isend_irecv"})

_IS = compile_beside(__file__)
# A dump has a stack for each recorded call; the other files are small.
_BYTES = 256 << 20
_SMALL = 32 << 20
_HEAD = 4096


class ProcessState(Seen, frozen=True, kw_only=True):
    """``rank-N.state``: a rank's process in /proc when the stall was gathered."""

    rank: int
    world_size: int = 0
    host: str = ""
    pid: int = 0
    main: str = ""
    # Whether the first dump of rank-N.stacks is the rank's, not its helpers'.
    dumped: bool = True
    # Seconds between what is in rank-N.progress and the gathering.
    age: float = 0.0


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """``rank-N.progress``: the main thread's last seen frames, innermost first."""

    time: float = 0.0
    frames: tuple[tuple[str, int | None, str], ...] = ()


class HostCall(msgspec.Struct, frozen=True, kw_only=True):
    """``rank-N.call``: the main thread's collective on the host; empty for none."""

    name: str = ""
    title: str = ""
    ranks: tuple[int, ...] = ()
    operation: str = ""


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """``rank-N.json``: a rank's start in seconds, and the number of ranks."""

    rank: int
    world_size: int = 0
    armed: float = 0.0


# Kinds of files that are one structure: where they are kept, and of which type they are.
_DECODED: dict[str, tuple[str, type[Any]]] = {
    "state": ("states", ProcessState),
    "call": ("calls", HostCall),
    "progress": ("progress", Progress),
}


@dataclass
class StallFiles:
    """Files of each rank in a folder; ``paths`` are those that were read."""

    traces: dict[int, RankTrace] = field(default_factory=dict)
    journals: dict[int, RankTrace] = field(default_factory=dict)
    lines: dict[int, CalledLines] = field(default_factory=dict)
    states: dict[int, ProcessState] = field(default_factory=dict)
    stacks: dict[int, tuple[ThreadStack, ...]] = field(default_factory=dict)
    helpers: dict[int, list[tuple[ThreadStack, ...]]] = field(default_factory=dict)
    progress: dict[int, Progress] = field(default_factory=dict)
    groups: dict[int, dict[str, TracedGroup]] = field(default_factory=dict)
    calls: dict[int, HostCall] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)
    unreadable: list[tuple[str, str]] = field(default_factory=list)

    def judge(self) -> Stall | None:
        if not (self.traces or self.journals or self.states):
            return None
        sizes = [state.world_size for state in self.states.values() if state.world_size]
        ranks = {*self.states, *self.stacks}
        standings = {rank: self._standing(rank) for rank in ranks}
        traces = {rank: self._with_call(self._with_titles(trace)) for rank, trace in self._traces()}
        stall = judge_stall(traces, standings, max(sizes, default=None))
        return msgspec.structs.replace(stall, mismatch=find_mismatch(self.lines))

    def _traces(self) -> Iterator[tuple[int, RankTrace]]:
        """Journals of a simulated HCCL: they outlive their ranks, and number all calls alike.

        A rank with only a dump has no communicator there, and so has called nothing.
        """
        if not self.journals:
            yield from self.traces.items()
            return
        for rank, trace in self.journals.items():
            lines = self.lines.get(rank)
            yield rank, add_lines(trace, lines) if lines else trace
        for rank in self.traces.keys() - self.journals.keys():
            yield rank, RankTrace(rank=rank, groups={}, calls=())

    def _with_titles(self, trace: RankTrace) -> RankTrace:
        """Groups by program names; dumps have "group_name_" + torch's (ProcessGroupHCCL.cpp)."""
        known = self.groups.get(trace.rank, {})
        groups = {}
        for name, group in trace.groups.items():
            named = known.get(name.removeprefix("group_name_"))
            if named and not group.title and named.ranks == group.ranks:
                title = "" if named.title == "undefined" else named.title
                groups[name] = msgspec.structs.replace(group, title=title)
            else:
                groups[name] = group
        return msgspec.structs.replace(trace, groups=groups)

    def _with_call(self, trace: RankTrace) -> RankTrace:
        """With a group's first call, which the recorder lacks before its communicator."""
        call = self.calls.get(trace.rank) or HostCall()
        name = f"group_name_{call.name}"
        p2p = call.operation in _P2P
        numbers = [own.number for own in trace.calls if own.group == name]
        recorded = (numbers and not p2p) or not all(own.done for own in trace.calls)
        # Calls may have left the recorder's buffer, which makes the number unknown.
        if not call.name or recorded or not (trace.whole or name not in trace.groups):
            return trace
        title = "" if call.title == "undefined" else call.title
        group = TracedGroup(name=name, title=title, ranks=call.ranks)
        first = TracedCall(
            group=name,
            number=max(numbers, default=1),
            operation=_OPS.get(call.operation, call.operation),
            p2p=p2p,
            frames=main_frames(self.stacks.get(trace.rank, ())),
        )
        return msgspec.structs.replace(
            trace, groups={**trace.groups, name: group}, calls=(*trace.calls, first)
        )

    def _standing(self, rank: int) -> Standing:
        state = self.states.get(rank) or ProcessState(rank=rank)
        frames = main_frames(self.stacks.get(rank, ()))
        age = 0.0
        if not frames and rank in self.progress:
            age = max(state.age, 0.1)
            frames = tuple(
                Frame(file=file, line=line or 0, function=function)
                for file, line, function in self.progress[rank].frames
            )
        return Standing(
            rank=rank,
            frames=frames,
            helpers=tuple(main_frames(dump) for dump in self.helpers.get(rank, ())),
            age=age,
            **{name: getattr(state, name) for name in Seen.__struct_fields__},
        )


def read_stall_files(names: Sequence[str]) -> StallFiles:
    files = StallFiles()
    with _without_collector():
        paths = list(_paths(names))
        earlier = _earlier_runs(paths)
        files.unreadable += [(folder, "of an earlier run") for folder in sorted(earlier)]
        # The state names the main thread of the stacks.
        for path in sorted(paths, key=lambda path: not path.endswith(".state")):
            if any(path.startswith(f"{folder}{os.sep}") for folder in earlier):
                files.paths.append(path)
            else:
                _try_to_read(path, files)
    return files


def _earlier_runs(paths: Sequence[str]) -> set[str]:
    """Folders of hosts whose ranks restarted elsewhere, or of another job size."""
    started: dict[str, list[Started]] = {}
    for path in paths:
        if (match := _IS["own"].search(path)) and match[2] == "json":
            with contextlib.suppress(DataError):
                rank = _decode(read_bytes(path, _SMALL), Started, path)
                started.setdefault(os.path.dirname(path), []).append(rank)
    latest = sorted(started, key=lambda folder: max(rank.armed for rank in started[folder]))
    present: set[int] = set()
    earlier = set()
    for folder in reversed(latest):
        ranks = {rank.rank for rank in started[folder]}
        size = {rank.world_size for rank in started[latest[-1]]}
        if present & ranks or size != {rank.world_size for rank in started[folder]}:
            earlier.add(folder)
        else:
            present |= ranks
    return earlier


@contextmanager
def _without_collector() -> Iterator[None]:
    """Dumps are millions of small values without cycles, and collection doubles the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _try_to_read(path: str, files: StallFiles) -> None:
    try:
        _read(path, files)
    except DataError as error:
        files.unreadable.append((path, str(error)))
        files.paths.append(path)


def _paths(names: Sequence[str]) -> Iterator[str]:
    for name in names:
        if os.path.isdir(name):
            for folder, files in walk_folders(name):
                yield from (os.path.join(folder, file) for file in files)
        elif os.path.isfile(name):
            yield name


def _read(path: str, files: StallFiles) -> None:
    name = os.path.basename(path)
    if match := _IS["own"].search(name):
        _read_own(path, int(match[1]), match[2], files)
    elif match := _IS["traceback"].search(name):
        text = read_bytes(path, _SMALL).decode("utf-8", "replace")
        files.stacks.setdefault(int(match[1]), parse_npu_traceback(text))
        files.paths.append(path)
    elif (
        (match := _IS["dump"].search(name))
        and not _IS["logname"].search(name)
        and is_dump(_head(path))
    ):
        rank = int(match[1])
        trace = parse_dump(read_bytes(path, _BYTES), rank, path)
        if rank in files.traces:
            raise DataError(f"{path}: rank {rank} has another dump; name one folder")
        files.traces[rank] = trace
        files.paths.append(path)


def _read_own(path: str, rank: int, kind: str, files: StallFiles) -> None:
    data = read_bytes(path, _SMALL)
    if kind == "stacks":
        text = data.decode("utf-8", "replace")
        state = files.states.get(rank) or ProcessState(rank=rank)
        dumps = parse_faulthandler(text, state.main)
        if dumps and state.dumped:
            files.stacks.setdefault(rank, dumps[0])
        files.helpers[rank] = list(dumps[state.dumped :])
    elif kind == "spy" and ".helper-" in path:
        files.helpers.setdefault(rank, []).append(parse_py_spy(data, path))
    elif kind == "spy":
        files.stacks[rank] = parse_py_spy(data, path)
    elif kind == "calls":
        files.journals[rank] = parse_journal(data, rank, path)
    elif kind == "lines":
        files.lines[rank] = parse_called_lines(data, rank, path)
    elif kind in _DECODED:
        member, shape = _DECODED[kind]
        getattr(files, member)[rank] = _decode(data, shape, path)
    elif kind == "groups":
        files.groups[rank] = {
            group.name: group for group in _decode(data, tuple[TracedGroup, ...], path)
        }
    files.paths.append(path)


def _decode(data: bytes, shape: type[T], path: str) -> T:
    try:
        return msgspec.json.decode(data, type=shape)
    except (msgspec.MsgspecError, ValueError) as error:
        raise DataError(f"{path}: {describe_json(error, data)}") from error


def _head(path: str) -> bytes:
    with contextlib.suppress(OSError, ValueError):
        number = open_descriptor(path)
        try:
            return os.read(number, _HEAD)
        finally:
            os.close(number)
    return b""
