"""Decides how long to wait for a process and its descendants; a busy machine is not a broken one.

Seconds in which its threads waited for a processor do not count. Probes load this file by its path
into the examined interpreter: standard library only.
"""

import contextlib
import math
import os
import subprocess
import time
from collections.abc import Callable, Iterator

# A wait never exceeds this many times its seconds; a command's --timeout ends it earlier.
MOST_STRETCH = 20.0
# One retry after a time-out, with this many times the seconds.
MORE = 2.0
# A process is idle if it ran or waited for a processor for less than this share of the time.
_IDLE = 0.1
# A wait for a processor for this share of the time means a busy machine.
_BUSY = 0.2
_LOOK = 1.0
_TICKS = os.sysconf("SC_CLK_TCK")
# Seconds that a thread ran, and waited for a processor, None if uncounted.
_Usage = tuple[float, float | None]


class Deadline:
    """So many ``seconds`` for a process with its descendants, at most ``ceiling`` by the clock.

    ``proc`` is a procfs. If it does not count a thread's delay, the pressure on all processors
    does, else the load. ``idle``: a process that ran for a smaller share did nothing.
    """

    def __init__(
        self,
        seconds: float,
        pid: int,
        *,
        ceiling: float = math.inf,
        idle: float = _IDLE,
        proc: str = "/proc",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.delayed = 0.0
        self.is_cut = False  # by its ceiling
        self._seconds, self._ceiling = seconds, min(seconds * MOST_STRETCH, ceiling)
        self._pid, self._idle, self._proc, self._clock = pid, idle, proc, clock
        self._began = self._looked = clock()
        self._threads: dict[tuple[int, int], _Usage] = {}
        self._active: dict[int, float] = {}
        self._pressure = _pressure(proc)
        self._look(0.0)

    @property
    def spent(self) -> float:
        """Seconds that count."""
        return self._clock() - self._began - self.delayed

    @property
    def is_busy(self) -> bool:
        """Whether the process waited long for a processor."""
        return self.delayed > _BUSY * (self.spent + self.delayed)

    def time_left(self) -> float:
        """Seconds until the wait may end, else 0. Cheap to call: looks once a second."""
        now = self._clock()
        passed = now - self._looked
        if passed >= min(_LOOK, self._seconds / 4) or self._seconds <= self.spent:
            self._looked = now
            self._look(passed)
        rest, most = self._seconds - self.spent, self._ceiling - (now - self._began)
        self.is_cut = rest > 0 >= most
        return max(min(rest, most), 0.0)

    def idle(self, pid: int) -> float:
        """Seconds that this process and its descendants could run but did nothing."""
        return round(self.spent - self._active.get(pid, 0.0), 3)

    def _look(self, passed: float) -> None:
        before, self._threads = self._threads, {}
        longest: float | None = None
        active: set[int] = set()
        for path, thread in _threads(self._proc, (self._pid,)):
            usage = _usage(f"{self._proc}/{path[-1]}/task/{thread}")
            if usage is None:
                continue
            key = (path[-1], thread)
            self._threads[key] = ran, waited = usage
            ran_before, waited_before = before.get(key, (0.0, 0.0))
            delay = (waited or 0.0) - (waited_before or 0.0)
            if waited is not None:
                longest = max(delay, longest or 0.0)
            if ran - ran_before > self._idle * passed or delay > _IDLE * passed:
                active.update(path)
        if longest is None:
            longest = self._share_of_delay(passed) * passed
        # A thread that began in between brings its earlier wait; no wait exceeds the passed time.
        self.delayed += min(longest, passed)
        self._active.update(dict.fromkeys(active, self.spent))

    def _share_of_delay(self, passed: float) -> float:
        before, self._pressure = self._pressure, _pressure(self._proc)
        if before is not None and self._pressure is not None:
            return (self._pressure - before) / passed if passed else 0.0
        load, cores = load_of(self._proc)
        return max(1 - cores / load, 0.0) if load else 0.0


def await_end(process: subprocess.Popen[bytes], wait: Deadline) -> bool:
    while process.poll() is None:
        left = wait.time_left()
        if not left:
            return False
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(min(left, _LOOK))
    return True


def communicate(
    process: subprocess.Popen[bytes], seconds: float, data: bytes | None = None
) -> tuple[bytes, bytes]:
    """As Popen.communicate, within ``seconds`` that count. Raises TimeoutExpired."""
    wait = Deadline(seconds, process.pid)
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.communicate(data, timeout=min(wait.time_left(), _LOOK))
        data = None  # it is on its way
        if not wait.time_left():
            raise subprocess.TimeoutExpired(process.args, seconds)


def _threads(proc: str, path: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], int]]:
    try:
        names = os.listdir(f"{proc}/{path[-1]}/task")
    except OSError:  # it has ended
        return
    for name in names:
        yield path, int(name)
        for child in _read(f"{proc}/{path[-1]}/task/{name}/children").split():
            yield from _threads(proc, (*path, int(child)))


def _usage(folder: str) -> _Usage | None:
    if counted := _read(f"{folder}/schedstat").split():
        return int(counted[0]) / 1e9, int(counted[1]) / 1e9
    fields = _read(f"{folder}/stat").rpartition(")")[2].split()
    # utime and stime of proc_pid_stat(5).
    return ((int(fields[11]) + int(fields[12])) / _TICKS, None) if fields else None


def _pressure(proc: str) -> float | None:
    text = _read(f"{proc}/pressure/cpu")
    total = text.partition("total=")[2].split()
    return int(total[0]) / 1e6 if total else None


def load_of(proc: str = "/proc") -> tuple[float, int]:
    """The load of the last minute, and the usable processors."""
    words = _read(f"{proc}/loadavg").split()
    return float(words[0]) if words else 0.0, len(os.sched_getaffinity(0))


def describe_load() -> str:
    load, cores = load_of()
    return f"load {load:g} on {cores} core{'s' if cores > 1 else ''}"


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except OSError:
        return ""
