"""Ends a run whose time is over, or that cannot heed a signal, with what it has so far.

A call on a mount that stopped answering returns neither for a deadline nor for a signal. So a
thread watches the clock and signals, reports if the main thread does not, and ends the process.
"""

import contextlib
import math
import os
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from types import FrameType

from ascend_doctor.exits import EXIT_INTERRUPTED, EXIT_UNKNOWN
from ascend_doctor.machine import live, scratch, streams
from ascend_doctor.machine.patience import patience
from ascend_doctor.machine.waiting import Deadline

# After its time a run may still gather its results and write the report.
LEAST_GRACE = 5.0
_SHARE = 0.05
_HEED = 3.0  # seconds that the main thread has to notice a signal
_WAKING = 0.5  # the main thread may notice it before this one does
_LAST_WORDS = 10.0
_CLEANING = 1.0
_ANSWER = 60.0  # seconds that a file may take to answer
_GLANCE = 5.0
_IDLE = 0.004  # share of a processor that looking itself may take

# Writes known results and returns the exit code, from the reason and the default code.
LastWords = Callable[[str, int], int]


class _Watchdog:
    def __init__(self, began: float) -> None:
        self.began = began
        self.whole: float | None = None
        self.end: float | None = None
        self.working: _Work | None = None
        self.seconds = 0.0
        self.heeded = 0.0
        self.last_words: LastWords | None = None
        self._bell, self._rope = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def start(self) -> None:
        # Python runs handlers only in the main thread, which may hang; the C handler itself
        # writes to this.
        signal.set_wakeup_fd(self._rope, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup, and jobs in the background
                signal.signal(number, self._interrupt)
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def ring(self) -> None:
        """Make the thread check the clock again."""
        with contextlib.suppress(OSError):
            os.write(self._rope, b"\0")

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self.heeded = time.monotonic()
        signal.default_int_handler(number, frame)

    def _watch(self) -> None:
        while True:
            left = None if self.end is None else max(self.end - time.monotonic(), 0.0)
            if self.working is not None:
                left = min(_GLANCE if left is None else left, _GLANCE)
            heard, _, _ = select.select([self._bell], [], [], left)
            if self.working is not None and self.working.has_stopped():
                _end(self, f"no file answered for {self.working.patience:g} s", EXIT_UNKNOWN)
            if heard:
                for number in set(os.read(self._bell, 4096)) - {0}:
                    self._hear(number)
            elif self.end is not None and time.monotonic() >= self.end:
                _end(self, f"the run did not end within {self.seconds:g} s", EXIT_UNKNOWN)

    def _hear(self, number: int) -> None:
        # Programs that pass signals on, as `run` does to its launch, have another handler.
        if signal.getsignal(number) != self._interrupt:
            return
        heard = time.monotonic()
        while self.heeded < heard - _WAKING:
            if time.monotonic() >= heard + _HEED:
                _end(self, "interrupted", EXIT_INTERRUPTED)
            time.sleep(0.05)


class _Work:
    """Whether a process that only reads and computes still does.

    It has stopped if it neither used nor awaited a processor for ``patience`` seconds. A wait
    for the reader of its output does not count.
    """

    def __init__(self, patience: float) -> None:
        self.patience = patience
        self._wait = Deadline(math.inf, os.getpid(), idle=_IDLE)
        self._wrote = 0.0

    def has_stopped(self) -> bool:
        """Look once; called every few seconds."""
        self._wait.time_left()
        if _is_writing():
            self._wrote = self._wait.spent
        idle = min(self._wait.idle(os.getpid()), self._wait.spent - self._wrote)
        return idle > self.patience


def _is_writing() -> bool:
    frame = sys._current_frames().get(threading.main_thread().ident or 0)  # noqa: SLF001
    while frame is not None:
        if frame.f_code.co_filename == streams.__file__:
            return True
        frame = frame.f_back
    return False


_dog: _Watchdog | None = None


def start(began: float) -> None:
    """Watch this process, the doctor's alone; it ``began`` at that clock time."""
    global _dog  # noqa: PLW0603 - there is one process
    _dog = _Watchdog(began)
    _dog.start()


def expect_work() -> None:
    """End a command that waits for a file that never answers, as on a dead mount."""
    if _dog is not None:
        _dog.working = _Work(_ANSWER * patience().factor)
        _dog.ring()


def limit(seconds: float | None) -> None:
    """Limit the run to these seconds from program entry, times the patience. None: no limit."""
    if _dog is not None:
        _dog.whole = seconds
        _set_end(_dog)


def be_patient() -> None:
    """Apply a patience that was read after the limit."""
    if _dog is not None:
        _set_end(_dog)


def start_of_run() -> float:
    """The clock time from which the run's seconds count."""
    return time.monotonic() if _dog is None or _dog.whole is None else _dog.began


def _set_end(dog: _Watchdog, part: float | None = None) -> None:
    spans = ((dog.began, dog.whole), (time.monotonic(), part))
    factor = patience().factor
    ends = [(start + span * factor, span * factor) for start, span in spans if span is not None]
    moment, dog.seconds = min(ends, default=(math.inf, 0.0))
    dog.end = moment + max(LEAST_GRACE, _SHARE * dog.seconds) if ends else None
    dog.ring()


@contextlib.contextmanager
def watch(seconds: float, last_words: LastWords) -> Iterator[None]:
    """A part of the run with a last message if it does not end in time."""
    if _dog is None:
        yield
        return
    _set_end(_dog, seconds)
    _dog.last_words = last_words
    try:
        yield
    finally:
        _dog.last_words = None
        _set_end(_dog)


def _end(dog: _Watchdog, why: str, code: int) -> None:
    """Each step may hang like the main thread: each has its time limit."""
    why = f"{why}; it waits in {_where()}"
    codes = [code]

    def say() -> None:
        if dog.last_words is not None:
            codes[0] = dog.last_words(why, code)

    with contextlib.suppress(OSError):
        os.write(2, f"ascend-doctor: {why}\n".encode(errors="replace"))
    _within(_LAST_WORDS, say)
    for stream in (sys.stdout, sys.stderr):
        _within(_CLEANING, stream.flush)
    live.end_all()
    _within(_CLEANING, scratch.remove_all)
    os._exit(codes[0])


def _within(seconds: float, step: Callable[[], object]) -> None:
    def try_step() -> None:
        with contextlib.suppress(Exception):
            step()

    helper = threading.Thread(target=try_step, daemon=True)
    helper.start()
    helper.join(seconds)


def _where() -> str:
    frame = sys._current_frames().get(threading.main_thread().ident or 0)  # noqa: SLF001
    if frame is None:
        return "its end"
    last = traceback.extract_stack(frame)[-1]
    return f"{last.name} ({os.path.basename(last.filename)}:{last.lineno})"
