"""Watches a launch for a stall, and gathers what its ranks can say of it."""

import contextlib
import functools
import math
import os
import re
import shlex
import shutil
import socket
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import click
import msgspec

from ascend_doctor.diagnosis.stall_files import ProcessState, read_stall_files
from ascend_doctor.diagnosis.stall_result import Stall
from ascend_doctor.errors import DataError
from ascend_doctor.language import say
from ascend_doctor.machine.files import read_bytes, reason, write_whole
from ascend_doctor.machine.hooks import STARTUP_FILE, prepend_path
from ascend_doctor.machine.private import private_folder
from ascend_doctor.machine.processes import (
    catches,
    find_lock_holders,
    has_open,
    parent_of,
    spy,
    state_of,
)
from ascend_doctor.machine.waiting import Deadline
from ascend_doctor.render.columns import pad
from ascend_doctor.render.notices import notice
from ascend_doctor.render.plain import one_line
from ascend_doctor.render.stall import stall_rows, stall_title

HOOK = Path(__file__).with_name("stall_hook.py")
# torch_npu/csrc/distributed/{ProcessGroupHCCL,HCCLUtils}.cpp, flight_recorder.md: the size turns
# the recorder on, the prefix is where torch_npu dumps.
_BUFFER = ("TORCH_HCCL_TRACE_BUFFER_SIZE", "512")
_PREFIX = "TORCH_HCCL_DEBUG_INFO_TEMP_FILE"
_POLL = 0.5
_CALLED = "last_enqueued_collective"
# A rank answers from a thread, which is late while the main one holds the interpreter.
_ANSWER = 10.0
# By a signal handler, which no lock delays.
_STACK = 3.0
_PLOG_TAIL = 1 << 20
# Of a file of a rank, a few KiB.
_LIMIT = 1 << 20
# A host name becomes a folder's: without a leading dot or a slash.
_NOT_A_NAME = re.compile(r"[^\w-]|^\W+")
# Other files in the folder belong to others and stay.
_OURS = ("rank-*.*", "hccl_trace_rank_*", "gather", "plog/*", "hook/*")


class RankProcess(msgspec.Struct, frozen=True, kw_only=True):
    """``rank-N.json``: what the hook says of a rank when it starts."""

    rank: int
    local_rank: int
    world_size: int
    pid: int
    host: str
    signal: int
    main: str


class StallWatch:
    """Of one launch: ``note_output`` whenever it prints; ``report`` is called for each stall."""

    def __init__(self, folder: Path, seconds: float, report: Callable[[Stall], None]) -> None:
        self.folder = folder
        self.stalls = 0
        # When the launch got a signal from outside: ranks that end by it did not stall.
        self.signalled: float | None = None
        self._stalled: bytes | None = None
        self._seconds = seconds
        self._report = report
        self._latest = time.monotonic()
        self._wait = Deadline(math.inf, os.getpid())
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """``base`` armed; makes the folder, private as every rank runs it. Raises DataError."""
        try:
            private_folder(self.folder.parent)
            private_folder(self.folder)
            clear(self.folder)
            hook = self.folder / "hook"
            hook.mkdir()
            shutil.copyfile(HOOK, hook / "ascend_stall.py")
            shutil.copy(STARTUP_FILE, hook)
        except OSError as error:
            raise DataError(f"{self.folder}: {reason(error)}") from error
        armed = {"PYTHONPATH": prepend_path(str(hook), base.get("PYTHONPATH"))}
        for name, value in (_BUFFER, (_PREFIX, str(self.folder / "hccl_trace_rank_"))):
            # The user's own recorder settings stay.
            armed.update({} if name in base else {name: value})
        return {**base, **armed}

    def start(self, pid: int) -> None:
        self._wait = Deadline(math.inf, pid)
        self._latest = time.monotonic()
        self._thread.start()

    def note_output(self) -> None:
        self._latest = time.monotonic()

    def note_signal(self) -> None:
        self.signalled = self.signalled or time.time()

    def end(self) -> None:
        self._ended.set()
        self._thread.join(_ANSWER + _STACK)

    def close(self) -> None:
        """Remove the folder where nothing stalled."""
        if not self.stalls:
            with contextlib.suppress(OSError):
                clear(self.folder)
                self.folder.rmdir()
                self.folder.parent.rmdir()

    @property
    def is_stalled(self) -> bool:
        """Whether no rank has called anything since the last stall, despite output."""
        return self._stalled is not None and self._stalled == self._statuses()

    def _watch(self) -> None:
        before, reported, seen, begin = b"", 0.0, 0.0, 0.0
        while not self._ended.wait(_POLL):
            now = self._statuses()
            if now != before:
                before = now
                self.note_output()
            latest = self._latest
            self._wait.time_left()
            if latest != seen:
                seen, begin = latest, self._wait.spent
            # No rank has loaded the hook yet, or this stall was reported before.
            if self.signalled or not now or latest == reported:
                continue
            if self._wait.spent - begin < self._seconds:
                continue
            reported = latest
            self.stalls += 1
            self._stalled = now
            # A dead thread would leave the launch unwatched.
            with contextlib.suppress(OSError, DataError):
                gather(self.folder, self.stalls)
                stall = read_stall_files([str(self.folder)]).judge()
                if stall is not None and not self._ended.is_set():
                    self._report(stall)

    def _statuses(self) -> bytes:
        """What all recorders count; before a rank's first call also its source line."""
        texts = []
        for path in sorted(self.folder.glob("rank-*.json")):
            texts.append(path.name.encode())
            with contextlib.suppress(DataError, msgspec.MsgspecError):
                data = read_bytes(path.with_suffix(".progress"), _LIMIT)
                progress = msgspec.json.decode(data, type=_RankProgress)
                # Later its line also moves while it waits in a polling loop.
                began = _CALLED in progress.status
                texts.append(progress.status.encode() if began else data)
        return b"\n".join(texts)


def arm(log: str, seconds: float, env: dict[str, str]) -> StallWatch | None:
    """A watch over the launch, with what its ranks need in ``env``; None if off."""
    folder = folder_beside(log)
    if not seconds or not folder.parent.parent.is_dir():
        return None
    watch = StallWatch(folder, seconds, functools.partial(_show_stall, folder))
    try:
        env.update(watch.environment(env))
    except DataError as error:
        notice(f"not watched for stalls: {error}")
        return None
    return watch


def _show_stall(folder: Path, stall: Stall) -> None:
    title = one_line(say(stall_title(stall)))
    click.echo(f"ascend-doctor: {say('no progress')}; {title}", err=True)
    for label, text in stall_rows(stall):
        click.echo(f"    {pad(say(label), 8)} {one_line(say(text))}", err=True)
    again = shlex.join(["ascend-doctor", "diagnose", str(folder.parent)])
    notice(f"to read what was gathered again: {again}")


class _RankProgress(msgspec.Struct, frozen=True, kw_only=True):
    status: str = ""


def folder_beside(log: str) -> Path:
    """Where stalls are gathered: beside the log if it is a file, with a folder for each host."""
    path = Path(log).absolute()
    if path.exists() and not path.is_file():
        path = Path.cwd() / "ascend-doctor-run.log"
    host = _NOT_A_NAME.sub("_", socket.gethostname()) or "host"
    return path.with_name(f"{path.stem}-stall") / host


def clear(folder: Path) -> None:
    """Remove only what an earlier run left there."""
    for pattern in _OURS:
        for path in folder.glob(pattern):
            with contextlib.suppress(OSError):
                path.unlink()
    for name in ("hook/__pycache__", "hook", "plog"):
        shutil.rmtree(folder / name, ignore_errors=True)


def gather(folder: Path, number: int) -> None:
    """Have all ranks here write dumps and stacks. Raises DataError, OSError."""
    here, ranks = socket.gethostname(), []
    for path in sorted(folder.glob("rank-*.json")):
        with contextlib.suppress(DataError, msgspec.MsgspecError):
            rank = msgspec.json.decode(read_bytes(path, _LIMIT), type=RankProcess)
            if rank.host == here:  # numbers of processes of other machines mean nothing here
                ranks.append(rank)
    write_whole(str(folder / "gather"), str(number))
    holders = find_lock_holders({rank.pid: rank.rank for rank in ranks})
    for rank in ranks:
        _gather_state(folder, rank, holders.get(rank.pid))
        keep_plogs(folder, rank.pid, os.environ)
    end = time.monotonic() + _ANSWER
    while time.monotonic() < end and not all(_has_answered(folder, rank, number) for rank in ranks):
        time.sleep(_POLL / 5)


def _has_answered(folder: Path, rank: RankProcess, number: int) -> bool:
    """Whether a rank answered or never will: before torch is imported it cannot."""
    if not (folder / f"rank-{rank.rank}.progress").exists():
        return True
    # Stopped, traced, dead or gone: no thread can answer.
    if state_of(rank.pid) in {"T", "t", "Z", "gone"}:
        return True
    with contextlib.suppress(OSError, ValueError):
        return int((folder / f"rank-{rank.rank}.answered").read_text()) >= number
    return False


def _gather_state(folder: Path, rank: RankProcess, holder: int | None) -> None:
    stacks = folder / f"rank-{rank.rank}.stacks"
    processes = _holding(stacks, rank.pid)
    state = state_of(rank.pid) if rank.pid in processes else "gone"
    age = 0.0
    with contextlib.suppress(OSError):
        age = time.time() - (folder / f"rank-{rank.rank}.progress").stat().st_mtime
    with contextlib.suppress(OSError):
        os.truncate(stacks, 0)
    spied = spy(rank.pid, folder / f"rank-{rank.rank}.spy") if state != "gone" else False
    asked = [
        pid
        for pid in processes
        if not (spied and pid == rank.pid) and state_of(pid) not in {"T", "t", "Z", "gone"}
    ]
    written = [pid for pid in asked if _signal(pid, rank.signal, stacks)]
    answer = ProcessState(
        rank=rank.rank,
        world_size=rank.world_size,
        host=rank.host,
        pid=rank.pid,
        state=state,
        main=rank.main,
        dumped=rank.pid in written,
        age=round(age, 1),
        lock_holder=holder,
    )
    write_whole(str(folder / f"rank-{rank.rank}.state"), msgspec.json.encode(answer))


def _signal(pid: int, number: int, stacks: Path) -> bool:
    """Have faulthandler write, and wait for it; one process at a time writes the file."""
    if not catches(pid, number):
        return False
    before = stacks.stat().st_size
    with contextlib.suppress(OSError):
        os.kill(pid, number)
    # Written line by line: it is done once it stops growing.
    end, size = time.monotonic() + _STACK, before
    while time.monotonic() < end:
        time.sleep(0.05)
        now = stacks.stat().st_size
        if now == size and now > before:
            return True
        size = now
    return size > before


def _holding(stacks: Path, first: int) -> list[int]:
    """Who has the rank's file of stacks open: the rank first, then forked helpers."""
    target = os.path.realpath(stacks)
    pids = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    pids = [pid for pid in pids if pid == first or parent_of(pid) == first]
    return sorted((pid for pid in pids if has_open(pid, target)), key=lambda pid: pid != first)


def keep_plogs(folder: Path, pid: int, env: Mapping[str, str]) -> None:
    """The ends of the plogs of a process: ASCEND_PROCESS_LOG_PATH, or ~/ascend/log."""
    root = Path(env.get("ASCEND_PROCESS_LOG_PATH") or Path.home() / "ascend" / "log")
    for path in root.glob(f"*/*/*-{pid}_*.log"):
        with contextlib.suppress(OSError):
            (folder / "plog").mkdir(exist_ok=True)
            with path.open("rb") as file:
                file.seek(max(0, path.stat().st_size - _PLOG_TAIL))
                (folder / "plog" / path.name).write_bytes(file.read(_PLOG_TAIL))
