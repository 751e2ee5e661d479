"""Runs command lines in this process, each behind a deadline, and says at once how each ended.

    python runner.py JOBS RESULTS FIRST

JOBS is JSON: a list of argument lists. A result is a line of JSON; a job without one killed us.
"""

import contextlib
import faulthandler
import io
import json
import os
import resource
import signal
import sys
import time
from pathlib import Path

from ascend_doctor import cli

# Processor seconds, since machines may be busy; clock seconds for waits.
WORKING, WAITING = 10, 120
_MEMORY = 6 << 30


class LateError(BaseException):
    """Past the deadline; no handler for Exception takes it."""


def _late(*_: object) -> None:
    raise LateError


def main(jobs: Path, results: Path, first: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    for alarm in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(alarm, _late)
    with results.open("a", encoding="utf-8") as file:
        for number, arguments in enumerate(json.loads(jobs.read_text())):
            if number >= first:
                json.dump({"job": number, **_run(arguments)}, file)
                file.write("\n")
                file.flush()


def _run(arguments: list[str]) -> dict[str, object]:
    out, errors = (io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace") for _ in range(2))
    sys.argv = ["ascend-doctor", *arguments]
    start = time.monotonic()
    faulthandler.dump_traceback_later(2 * WAITING, exit=True)  # where no signal gets through
    signal.setitimer(signal.ITIMER_REAL, WAITING)
    signal.setitimer(signal.ITIMER_PROF, WORKING)
    code: int | str
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            code = cli.run(arguments)
    except LateError:
        code = "late"
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is the answer
        code = f"{type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        faulthandler.cancel_dump_traceback_later()
    texts = {"out": _text(out), "err": _text(errors)}
    return {"code": code, "seconds": time.monotonic() - start, **texts}


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    data = stream.buffer
    assert isinstance(data, io.BytesIO)
    return data.getvalue().decode("utf-8", "replace")


if __name__ == "__main__":
    os.environ.setdefault("GIT_TERMINAL_PROMPT", "0")
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
