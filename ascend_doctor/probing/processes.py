"""Every process that a launch leaves behind, and what its streams printed last."""

import contextlib
import os
import re
import signal
import time
from collections.abc import Iterator, Mapping

import psutil

from ascend_doctor.machine.live import adopt

PATIENCE = 3.0
KEPT_BYTES = 16 << 10
KEPT_LINES = 20
KEPT_COLUMNS = 400


class Descendants:
    """Processes started since this object was made, wherever they are.

    torchrun starts every rank in a new session, which a kill of its group misses. Orphans
    are handed to this process (PR_SET_CHILD_SUBREAPER): new ones are the launch's, but for
    those in the session of an older one.
    """

    def __init__(self) -> None:
        self._before = set(_children())
        self._others = {process.pid for process in self._before}

    def __iter__(self) -> Iterator[psutil.Process]:
        for child in _children():
            with contextlib.suppress(ProcessLookupError):
                if child not in self._before and os.getsid(child.pid) not in self._others:
                    yield child

    def signal(self, pid: int, number: signal.Signals) -> None:
        """Send a signal to one of them, never to another owner of its process id."""
        for process in self:
            if process.pid == pid:
                with contextlib.suppress(psutil.Error):
                    process.send_signal(number)

    def end(self) -> tuple[int, ...]:
        """SIGKILL until none is left; the process ids of those that cannot be killed."""
        limit = time.monotonic() + PATIENCE
        while True:
            alive = list(self)
            if not alive or time.monotonic() > limit:
                return tuple(sorted(process.pid for process in alive))
            for process in alive:
                with contextlib.suppress(psutil.Error):
                    process.kill()
                # An orphan stays a zombie until it is waited for, after its last thread's end.
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(process.pid, os.WNOHANG)
            time.sleep(0.01)


def _children() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


@contextlib.contextmanager
def adopting_orphans() -> Iterator[None]:
    """Orphaned descendants become children of this process instead of process 1."""
    adopt(on=True)
    try:
        yield
    finally:
        adopt(on=False)


class Tail:
    """The last bytes of a stream, however long."""

    def __init__(self, limit: int = KEPT_BYTES) -> None:
        self._limit = limit
        self._bytes = bytearray()

    def feed(self, data: bytes) -> None:
        self._bytes += data
        del self._bytes[: -self._limit]

    @property
    def text(self) -> str:
        return self._bytes.decode("utf-8", "replace")

    @property
    def last_lines(self) -> str:
        lines = self.text.rstrip().splitlines()[-KEPT_LINES:]
        return "\n".join(line[:KEPT_COLUMNS] for line in lines)


class Stream:
    """One rank's output, cut at the next probe of the process.

    Each piece goes to the tail of its probe; a mark names the one that follows.
    """

    _MARK = re.compile(rb"\0ascend-doctor probe ([a-z0-9-]{1,64})\n")
    _LONGEST = 96

    def __init__(self, tails: Mapping[str, Tail]) -> None:
        self._tails = tails
        self._tail = next(iter(tails.values()))
        self._rest = b""

    def feed(self, data: bytes) -> None:
        data = self._rest + data
        self._rest = b""
        begin = 0
        for mark in self._MARK.finditer(data):
            self._tail.feed(data[begin : mark.start()])
            self._tail = self._tails.get(mark[1].decode(), self._tail)
            begin = mark.end()
        cut = data.rfind(b"\0", max(begin, len(data) - self._LONGEST))
        if cut >= 0:
            self._rest = data[cut:]
            data = data[:cut]
        self._tail.feed(data[begin:])

    def end(self) -> None:
        self._tail.feed(self._rest)
        self._rest = b""
