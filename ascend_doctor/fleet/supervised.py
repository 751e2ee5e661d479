"""Runs a command for somebody who may die first: whatever ends, all that was started ends.

``python -m ascend_doctor.fleet.supervised SECONDS COMMAND...`` writes one Ending to its standard
output. Its standard input is the life line: when that closes, the command is ended.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import IO

import msgspec

from ascend_doctor.machine.live import MODULE
from ascend_doctor.probing.keeper import end, wait_while_alive
from ascend_doctor.probing.processes import Descendants, adopting_orphans

# The end of a traceback; every node sends it over the network.
_KEPT_ERRORS = 4000


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """``code`` is None if the command had to be ended, after ``seconds``."""

    code: int | None
    seconds: float
    output: bytes
    errors: str


def run_supervised(command: Sequence[str], seconds: float, env: Mapping[str, str]) -> bytes:
    """The encoded Ending of a command, empty if the supervisor was killed.

    ``env`` are additional variables. A guard is between the caller and the supervisor: Ray
    kills the children of a worker that ends, and theirs would live on (ray-project/ray:
    doc/source/ray-core/user-spawn-processes.rst).
    """
    with subprocess.Popen(  # noqa: S603 - the command of a fleet check, no shell
        [*MODULE, "ascend_doctor.fleet.supervised", str(seconds), *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **env},
    ) as guard:
        assert guard.stdout is not None  # noqa: S101 - a pipe was asked for
        return guard.stdout.read()


def supervise(command: Sequence[str], seconds: float, life_line: int) -> Ending:
    """Run a command until its end, its deadline or the life line's end; then end the rest."""
    begin = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="ascend-doctor-", ignore_cleanup_errors=True) as scratch,
        tempfile.TemporaryFile() as output,
        tempfile.TemporaryFile() as errors,
        adopting_orphans(),
    ):
        descendants = Descendants()
        process = subprocess.Popen(  # noqa: S603 - the command of a fleet check, no shell
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            # What a killed check leaves in its temporary folder goes with ours.
            env={**os.environ, "TMPDIR": scratch},
            start_new_session=True,
        )
        code = wait_while_alive(process, life_line, begin + seconds)
        if code is None:
            end(process)
        descendants.end()
        return Ending(
            code=code,
            seconds=round(time.monotonic() - begin, 1),
            output=_content(output),
            errors=_content(errors)[-_KEPT_ERRORS:].decode("utf-8", "replace"),
        )


def _content(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


def main() -> None:
    """The guard, which may be killed, and the supervisor, its child, which outlives it."""
    supervisor = os.fork()
    if supervisor:
        # The caller reads until the last of both has closed it, which is the supervisor.
        os.close(sys.stdout.fileno())
        os.waitpid(supervisor, 0)
        os._exit(0)
    os.setsid()
    ending = supervise(sys.argv[2:], float(sys.argv[1]), sys.stdin.fileno())
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.buffer.write(msgspec.msgpack.encode(ending))
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
