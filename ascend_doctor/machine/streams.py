"""Standard streams that bear what happens to them: closed, full, or nobody reads them any more."""

import io
import os
import select
import sys

_NAMES = ("standard input", "standard output", "standard error")


class _Patient(io.FileIO):
    """A descriptor whose failure ends nothing. ``failure`` is the error."""

    failure: OSError | None = None

    def write(self, data: object) -> int:
        """Writes all; loses the unwritable rest, and all later writes."""
        left = memoryview(data).cast("B")  # type: ignore[arg-type]
        size = len(left)
        while left:
            left = left[self._write_some(left) :]
        return size

    def _write_some(self, data: memoryview) -> int:
        try:
            return os.write(self.fileno(), data)
        except BlockingIOError:  # whoever shares a terminal may have made it so
            select.select([], [self.fileno()], [])
            return 0
        except OSError as error:
            if not isinstance(error, BrokenPipeError):
                self.failure = self.failure or error
            # Otherwise each later write fails again, the interpreter's last one with a traceback.
            nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return len(data)


_STREAMS: list[_Patient] = []


def hold() -> None:
    """Make this process's standard streams patient. A closed one goes nowhere.

    The next opened file would otherwise get a closed stream's descriptor.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) < len(_NAMES):
        pass
    os.close(number)
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
    sys.stdout = _hold(1, sys.stdout, "surrogateescape")
    sys.stderr = _hold(2, sys.stderr, "backslashreplace")


def _hold(number: int, old: io.TextIOBase | object, errors: str) -> io.TextIOWrapper:
    raw = _Patient(number, "wb", closefd=False)
    _STREAMS.append(raw)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=getattr(old, "encoding", None) or "utf-8",
        errors=getattr(old, "errors", None) or errors,
        line_buffering=number == 2 or os.isatty(number),  # noqa: PLR2004 - standard error
    )


def failure() -> str:
    """Why standard output is incomplete, "" if complete or if its reader left."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    lost = [stream for stream in _STREAMS if stream.failure and stream.fileno() == 1]
    return f"{_NAMES[1]}: {lost[0].failure.strerror}" if lost and lost[0].failure else ""
