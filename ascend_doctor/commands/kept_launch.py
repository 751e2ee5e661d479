"""A launch whose output passes through, byte for byte, and is kept in a log without its secrets."""

import contextlib
import fcntl
import math
import os
import selectors
import shlex
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click

from ascend_doctor.commands.stall_watch import StallWatch
from ascend_doctor.diagnosis.next_step import PLOGS, SIMULATED
from ascend_doctor.errors import DataError
from ascend_doctor.exits import (
    EXIT_EXCLUDE,
    EXIT_FINDINGS,
    EXIT_RESTART,
    EXIT_STOP,
    EXIT_UNKNOWN,
    EXIT_USAGE,
)
from ascend_doctor.language import current, say
from ascend_doctor.machine.files import open_emptied, reason
from ascend_doctor.machine.kinds import SCRIPT, refuse_other
from ascend_doctor.machine.live import DOCTOR, LiveMachine
from ascend_doctor.probing.keeper import SIGNALLED, command_of_keeper, signals_passed_on
from ascend_doctor.progress import STEPS, TaskDisplay
from ascend_doctor.redact import Redactor
from ascend_doctor.redact.streams import KeptLog
from ascend_doctor.render.columns import terminal_width
from ascend_doctor.render.notices import notice

# As much as a pipe holds (pipe(7)).
_BLOCK = 1 << 16
# With another it found no cause, or could not begin to look.
_NO_ANSWER = -1
_DIAGNOSIS = 600.0
_DIAGNOSED = {EXIT_FINDINGS, EXIT_UNKNOWN, EXIT_RESTART, EXIT_EXCLUDE, EXIT_STOP}
# How soon the end of a process is noticed whose pipe a child keeps open.
_WAIT = 0.2
# torchrun ends with it if a rank failed, also where `| tee` hides the exit code.
_RANKS_FAILED = b"torch.distributed.elastic.multiprocessing.errors.ChildFailedError"
# The launcher's words come last, but buffered output of ranks may follow.
_TAIL = 1 << 20
_MOST_LOGS = 100
_INTERPRETERS = {".py": "python", ".sh": "bash", ".bash": "bash"}


def ranks_failed(log: str) -> bool:
    """Whether the launcher reports a failed rank at the end of a log."""
    with open(log, "rb") as file:
        file.seek(max(0, os.path.getsize(log) - _TAIL))
        return _RANKS_FAILED in file.read()


def diagnose_kept(
    log: str,
    code: int,
    options: Sequence[str] = (),
    gathered: str | None = None,
    *,
    simulated: bool = False,
) -> int:
    """Diagnose the failure in another process, on standard error; gives its exit code.

    ``options`` are more options of `diagnose`; ``gathered`` is the folder of the final stall.
    """
    ended = f"ended with {code}" if code else "ended with 0, though its ranks failed"
    if code > SIGNALLED and code - SIGNALLED in set(signal.Signals):
        ended += f" ({signal.Signals(code - SIGNALLED).name})"
    as_here = ["--lang", current(), "--exit-status", str(code)]
    if sys.stderr.isatty():  # the user's own, as where `diagnose` is called
        as_here.append("--no-redact")
    task = say("looking for the cause in its output")
    with TaskDisplay(STEPS, [task]) as display, display.run(task):
        # Its output is a pipe, which has no width.
        simulation = {SIMULATED: "1"} if simulated else {}
        env = {**os.environ, **simulation, "COLUMNS": str(terminal_width())}
        done = LiveMachine(env).run(
            [*DOCTOR, "diagnose", *as_here, *options, "--", log, *([gathered] if gathered else [])],
            deadline=_DIAGNOSIS,
        )
    exit_code = _NO_ANSWER if done.exit_code is None else done.exit_code
    if exit_code == EXIT_USAGE and done.stderr:
        click.echo(done.stderr, nl=False, err=True)
    if exit_code in _DIAGNOSED:
        notice(f"it {ended}; what its output in {log} shows:")
        click.echo(done.stdout, nl=False, err=True)
    elif code:  # what a launcher said of its ranks may be of an attempt that was made again
        text = say(f"it {ended}; nothing in its output says why ({log})")
        if not simulated:
            text += say(f"; next: ascend-doctor diagnose {shlex.quote(log)} {PLOGS}")
        click.echo(f"ascend-doctor: {text}", err=True)
    return exit_code


def hold_log(log: str) -> str:
    """``log``, or with a number if another run writes it; held until this process ends."""
    stem, ending = os.path.splitext(log)
    for path in (log, *(f"{stem}-{number}{ending}" for number in range(2, _MOST_LOGS))):
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            held = os.open(path, flags, 0o666)
            if stat.S_ISREG(os.fstat(held).st_mode):
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(held)
        except OSError:  # the start says why, or the file system has no locks
            return path
        else:
            if path != log:
                notice(f"another run writes {log}; the output of this one goes to {path}")
            return path
    return log


def explain_missing_program(name: str) -> DataError:
    if os.path.isdir(name):
        return DataError(f"{name}: a folder, not a program")
    if os.path.isfile(name):
        refuse_other(name, SCRIPT)
        interpreter = _INTERPRETERS.get(os.path.splitext(name)[1])
        if interpreter is None:
            return DataError(f"{name}: not executable")
        command = f"`{interpreter} {name}`"
        return DataError(f"{name}: not executable; start it by its interpreter, as {command}")
    return DataError(f"{name}: no such program")


def run_supervised(
    launch: Sequence[str],
    log: str,
    env: Mapping[str, str],
    *,
    folder: Path,
    shown: bool = True,
    seconds: float = math.inf,
) -> int:
    """As ``run_kept``, but nothing outlives it, us or ``seconds``; only logged unless ``shown``."""
    with supervise(launch, folder, seconds) as (keeper, life_line):
        return run_kept(keeper, log, env, pass_fds=(life_line,), shown=shown)


@contextlib.contextmanager
def supervise(
    launch: Sequence[str], folder: Path, seconds: float = math.inf
) -> Iterator[tuple[list[str], int]]:
    """A command around the launch that ends all it started when the block or we end.

    It inherits the given descriptor. ``folder`` is removed if we die first.
    """
    life_line, ours = os.pipe()
    keeper = command_of_keeper(launch, life_line, str(folder))
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, life_line)
        end = os.fdopen(ours, "wb", buffering=0)
        stack.callback(end.close)
        if seconds < math.inf:
            timer = threading.Timer(seconds, end.close)
            timer.daemon = True
            timer.start()
            stack.callback(timer.cancel)
        yield keeper, life_line


def run_kept(
    launch: Sequence[str],
    log: str,
    env: Mapping[str, str],
    *,
    pass_fds: tuple[int, ...] = (),
    shown: bool = True,
    watch: StallWatch | None = None,
) -> int:
    """Run a command, copy its output to our streams, ``log`` and ``watch``; gives its exit code.

    ``env`` is complete. Raises DataError if the log cannot be written or the command cannot start.
    """
    try:
        fdopen = os.fdopen(open_emptied(log), "wb")
    except OSError as error:
        raise DataError(f"--log {log}: {reason(error)}") from error
    note = (watch.note_signal,) if watch else ()
    with fdopen, signals_passed_on(*note) as pass_on_to:
        try:
            process = subprocess.Popen(  # noqa: S603 - the user's own command, no shell
                launch,
                env=env,
                pass_fds=pass_fds,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                # Signals of the terminal reach it by us alone, and once.
                start_new_session=True,
            )
        except OSError as error:
            raise DataError(f"{launch[0]}: {error.strerror}") from error
        pass_on_to(process)
        with process:
            log_lines = KeptLog(fdopen, Redactor().secrets)
            if watch:
                watch.start(process.pid)
            try:
                _copy(process, log_lines, watch, shown=shown)
            finally:
                log_lines.close()
                if watch:
                    watch.end()
            code = process.wait()
    return code if code >= 0 else SIGNALLED - code


def _copy(
    process: subprocess.Popen[bytes], log: KeptLog, watch: StallWatch | None, *, shown: bool
) -> None:
    """Copy until both streams end, or the process ended and its open pipes are silent."""
    with selectors.DefaultSelector() as selector:
        for pipe, ours in ((process.stdout, sys.stdout), (process.stderr, sys.stderr)):
            if pipe is not None:
                selector.register(pipe, selectors.EVENT_READ, ours.buffer)
        while selector.get_map():
            ready = selector.select(_WAIT)
            # A daemon that it left may hold the pipe open for ever.
            if not ready and process.poll() is not None:
                return
            for key, _ in ready:
                data = os.read(key.fd, _BLOCK)
                if not data:
                    selector.unregister(key.fileobj)
                    continue
                if watch:
                    watch.note_output()
                log.write(str(key.fd), data)
                if shown:
                    key.data.write(data)
                    key.data.flush()
