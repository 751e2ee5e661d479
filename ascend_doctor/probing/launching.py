"""Runs probes in one launch to their ends or a deadline, and ends all that was started."""

import contextlib
import functools
import math
import os
import selectors
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence

import psutil

from ascend_doctor.errors import DoctorError
from ascend_doctor.machine.build_locks import remove_dead
from ascend_doctor.machine.patience import VARIABLE, patience
from ascend_doctor.machine.scratch import temporary
from ascend_doctor.probe_results import ProbeRun
from ascend_doctor.probing.probe_slot import ProbeSlot
from ascend_doctor.probing.processes import Descendants, Stream, Tail, adopting_orphans
from ascend_doctor.probing.request import ProbeRequest, ProbeWatch, not_started
from ascend_doctor.probing.warm import Forked, fork

POLL = 0.05
# faulthandler writes from the signal handler itself, whatever the thread waits for.
DUMP_SECONDS = 0.5
END_SECONDS = 1.0
LAUNCHER_BYTES = 64 << 10
# With less a probe is reported as not run.
LEAST_SECONDS = 1.0
# The socket of a manager, by which Megatron writes checkpoints: "/pymp-", "/listener-" and eight
# characters each (Python's multiprocessing/util.py and connection.py).
_LISTENER = 32
# torchrun waits a minute for its store at localhost:0, then shows a C++ stack (torch 2.13.0).
NO_LOCALHOST = (
    "torchrun meets its ranks at localhost, which has no address on this machine: /etc/hosts lacks "
    "the line '127.0.0.1 localhost'"
)


def launch_together(
    requests: Sequence[ProbeRequest], *, watch: ProbeWatch | None = None, end: float = math.inf
) -> tuple[ProbeRun, ...]:
    """Run probes one after the other in the same processes, until one fails.

    Gives the runs of those that began, in their order. The next one begins when all ranks have
    a result; none lasts beyond ``end`` (of time.monotonic). The watch hears of an end if it is the
    first, or passed: a failure in used or forked processes may be another's fault.

    Then every new child of this process is ended. A probe that cannot be started is a value.
    """
    watch = watch or ProbeWatch()
    first = requests[0]
    if first.torchrun and first.nodes.count == 1 and not _localhost():
        run = not_started(first, NO_LOCALHOST)
        watch.ended(run)
        return (run,)
    try:
        with (
            temporary(room=_LISTENER) as records,
            adopting_orphans(),
            _interrupt_on_signals(),
            _Launch(requests, records, watch, end) as running,
        ):
            running.follow()
        runs = running.runs
    except (OSError, ValueError, DoctorError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        text = f"{getattr(error, 'filename', None) or first.python}: {reason}"
        runs = (not_started(first, text),)
        watch.ended(runs[0])
    return runs


@functools.cache
def _localhost() -> bool:
    try:
        return bool(socket.getaddrinfo("localhost", None))
    except OSError:
        return False


@contextlib.contextmanager
def _interrupt_on_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP (a scheduler, a lost terminal) interrupt like Ctrl-C, and clean up."""
    numbers = [
        number
        for number in (signal.SIGTERM, signal.SIGHUP)
        if threading.current_thread() is threading.main_thread()
        and signal.getsignal(number) is signal.SIG_DFL
    ]
    for number in numbers:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def _environment(request: ProbeRequest, records: str) -> dict[str, str]:
    env = dict(os.environ if request.env is None else request.env)
    env["TMPDIR"] = records  # with which leftovers go
    env[VARIABLE] = f"{patience().factor * request.patience:g}"
    if request.torchrun and env.get("PYTHONPATH"):  # it runs in another folder
        entries = env["PYTHONPATH"].split(os.pathsep)
        env["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, entries))
    # A probe imports from its own folder.
    env.pop("PYTHONSAFEPATH", None)
    if request.device == "cpu" and request.probe != "inspect-env":
        # torchrun itself imports torch, and with it torch_npu, before any probe runs.
        env["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    if request.torchrun:
        env.setdefault("OMP_NUM_THREADS", "1")  # as torchrun does, with a long warning
    return env


class _Launch:
    def __init__(
        self, requests: Sequence[ProbeRequest], records: str, watch: ProbeWatch, end: float
    ) -> None:
        self._first = requests[0]
        self._watch = watch
        self._folder = records
        self._end_of_all = end
        shared = len(requests) > 1
        self._parts = [
            ProbeSlot(request, os.path.join(records, request.probe) if shared else records)
            for request in requests
        ]
        self._at = 0
        self._launcher = Tail(LAUNCHER_BYTES)
        self._streams: list[Stream] = []
        self._selector = selectors.DefaultSelector()
        self._descendants = Descendants()
        self._timed_out = False
        self._stopped = False
        self._begin = time.time()
        self._process: subprocess.Popen[bytes] | Forked | None = None
        self._runs: list[ProbeRun] = []

    @property
    def runs(self) -> tuple[ProbeRun, ...]:
        return tuple(self._runs)

    @property
    def _part(self) -> ProbeSlot:
        return self._parts[self._at]

    def __enter__(self) -> "_Launch":  # noqa: PYI034 - Self is newer than Python 3.10
        self._start_part()
        try:
            self._open()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        left_behind: tuple[int, ...] = ()
        try:
            now = time.time()
            if self._timed_out:
                self._part.note_silence(now)
                self._dump()
            left_behind = self._end()
        finally:
            self._close()
        part = self._part
        if kind is None and not self._stopped and (self._at == 0 or part.started):
            code = None
            if not self._timed_out and self._process is not None:
                code = self._process.returncode
            self._take(
                part.run(
                    now,
                    exit_code=code,
                    timed_out=self._timed_out,
                    launcher=self._launcher,
                    left_behind=left_behind,
                )
            )

    def _start_part(self) -> None:
        self._part.begin(self._end_of_all)
        self._watch.started(self._part.request)

    def _take(self, run: ProbeRun) -> None:
        if run.sound or not (self._runs or self._first.forks(len(self._parts))):
            self._watch.ended(run)
        self._runs.append(run)

    def _open(self) -> None:
        first = self._first
        for position, rank in enumerate(first.ranks):
            path = os.path.join(self._folder, f"rank-{rank}.out")
            # A pipe a rank: torchrun mixes the ranks' output.
            os.mkfifo(path, 0o600)
            self._streams.append(
                Stream({part.request.probe: part.tails[position] for part in self._parts})
            )
            # Also for writing: the end of one writer is then not the end of the pipe.
            self._listen(os.open(path, os.O_RDWR | os.O_NONBLOCK), self._streams[-1])
        for part in self._parts:
            os.makedirs(part.folder, exist_ok=True)
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        self._listen(reader, self._launcher)
        argv, env = [*self._argv(), "--records", self._folder], _environment(first, self._folder)
        # -m puts the current folder, with training's modules, before all others.
        folder = self._folder if first.torchrun else None
        try:
            if first.forks(len(self._parts)):
                self._process = fork(argv, env, folder, writer)
            self._process = self._process or subprocess.Popen(  # noqa: S603 - no shell
                argv, stdin=subprocess.DEVNULL, stdout=writer, stderr=writer, env=env, cwd=folder,
                start_new_session=True,
            )  # fmt: skip
        finally:
            os.close(writer)

    def _argv(self) -> list[str]:
        first = self._first
        if len(self._parts) == 1:
            return [*first.argv, "--deadline", str(self._part.request.deadline)]
        asked = [part.request for part in self._parts]
        parts = [("--part", each.probe, each.script, str(each.deadline)) for each in asked]
        return [*first.shared_argv, *(text for part in parts for text in part)]

    def _listen(self, reader: int, sink: Tail | Stream) -> None:
        self._selector.register(reader, selectors.EVENT_READ, sink)

    def follow(self) -> None:
        assert self._process is not None  # noqa: S101 - set by _open
        next_look = 0.0
        while self._process.poll() is None and not self._stopped:
            if not self._part.time_left(self._process.pid):
                self._timed_out = True
                return
            self._drain(POLL)
            now = time.monotonic()
            if now >= next_look:
                next_look = now + POLL
                self._look()

    def _drain(self, patience: float) -> bool:
        some = False
        for key, _ in self._selector.select(patience):
            with contextlib.suppress(BlockingIOError):
                data = os.read(key.fd, 65536)
                if data:
                    some = True
                    key.data.feed(data)
                else:
                    self._selector.unregister(key.fd)
                    os.close(key.fd)
        return some

    def _look(self) -> None:
        while not self._stopped:
            part = self._part
            for rank, stage, at in part.read():
                self._watch.entered(rank, stage, max(at - self._begin, 0.0))
            rest = self._parts[self._at + 1 :]
            if self._timed_out or not rest or not part.ended or not part.well:
                return
            run = part.run(time.time(), exit_code=0, timed_out=False, launcher=Tail())
            self._take(run)
            self._at += 1
            needed = any(part.request.probe in each.request.needs for each in rest)
            late = self._end_of_all - time.monotonic() < LEAST_SECONDS
            if late or (run.blocks and needed):
                self._stopped = True
                return
            self._start_part()

    def _dump(self) -> None:
        self._look()
        for pid in self._part.pids:
            self._descendants.signal(pid, signal.SIGUSR1)
        limit = time.monotonic() + DUMP_SECONDS
        while time.monotonic() < limit:
            self._drain(POLL)

    def _end(self) -> tuple[int, ...]:
        if self._process is not None and self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired, psutil.Error):
                self._process.kill()
                self._process.wait(END_SECONDS)
        left_behind = self._descendants.end()
        # A rank killed while torch compiled would block every later one.
        remove_dead(_environment(self._first, self._folder), self._begin)
        limit = time.monotonic() + DUMP_SECONDS
        while self._drain(0) and time.monotonic() < limit:
            pass
        for stream in self._streams:
            stream.end()
        self._look()
        return left_behind

    def _close(self) -> None:
        for key in list(self._selector.get_map().values()):
            os.close(key.fd)
        self._selector.close()
