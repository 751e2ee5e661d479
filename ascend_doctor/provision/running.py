"""Runs git, pip and the like for a setup: alone on its prefix, with deadlines, without secrets."""

import contextlib
import os
import re
import secrets
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

import psutil

from ascend_doctor.errors import DoctorError
from ascend_doctor.machine.file_lock import open_lock, take_lock
from ascend_doctor.machine.live import ProgramMissing, kill_group, start_of
from ascend_doctor.machine.patience import patience
from ascend_doctor.machine.waiting import communicate, describe_load

# In the environment of all commands of a setup, to find what a killed setup left.
OWNER = "ASCEND_DOCTOR_SETUP_OWNER"
# A killed process goes at once, unless the kernel waits for a disk or network share.
_PATIENCE = 20.0
_KEPT_LINES = 12
_CHUNK = 1 << 16
_LINE_ENDS = re.compile(rb"[\r\n]+")
# Each makes pip install outside of its environment.
_INHERITED_BY_PIP = ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER", "PIP_REQUIRE_VIRTUALENV")


class CommandError(DoctorError):
    """A command of the setup failed or did not end.

    ``output`` is what its last output says of the failure, ``whole`` all of that.
    """

    def __init__(self, title: str, output: str, whole: str = "") -> None:
        super().__init__(f"{title}: {output}")
        self.output, self.whole = output, whole or output


@dataclass(frozen=True, kw_only=True)
class Runner:
    """Runs commands without a shell. ``hidden`` is cut out of their output.

    ``held`` is the prefix's lock, which commands inherit. ``progress`` gets each line of
    standard error of a running command.
    """

    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    held: "PrefixLock | None" = None
    hidden: tuple[str, ...] = ()
    progress: Callable[[str], None] | None = None

    def run(
        self,
        argv: list[str],
        *,
        title: str,
        deadline: float,
        env: Mapping[str, str] | None = None,
        shell: Mapping[str, str] | None = None,
    ) -> str:
        """Standard output of a successful command, as text; see ``output``."""
        out = self.output(argv, title=title, deadline=deadline, env=env, shell=shell)
        return out.decode("utf-8", "replace")

    def output(
        self,
        argv: list[str],
        *,
        title: str,
        deadline: float,
        env: Mapping[str, str] | None = None,
        shell: Mapping[str, str] | None = None,
        data: bytes = b"",
    ) -> bytes:
        """Standard output of a successful command with ``data`` as input. Raises CommandError.

        ``env`` is added to the cleaned user's environment; ``shell`` replaces it.
        """
        try:
            program, known = start_of(argv[0], shell or self._clean())
            process = subprocess.Popen(  # noqa: S603 - no shell
                [program, *argv[1:]],
                stdin=subprocess.PIPE if data else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**known, **self._mark, **(env or {})},
                start_new_session=True,
                pass_fds=() if self.held is None else (self.held.descriptor,),
            )
        except (OSError, ValueError, ProgramMissing) as error:
            raise CommandError(title, f"{argv[0]} cannot be run: {error}") from error
        errors = self._follow(process)
        try:
            out, err = communicate(process, deadline * patience().factor, data or None)
        except subprocess.TimeoutExpired:
            raise CommandError(
                title, f"did not end within {deadline:.0f} s, {describe_load()}"
            ) from None
        finally:
            # Left processes of its group would hold its pipes open.
            kill_group(process)
            if errors is not None:
                errors.join(_PATIENCE)
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()
        if process.returncode != 0:
            err = err if errors is None else bytes(errors.output)
            text = self._clear(err or out)
            raise CommandError(title, _describe(process.returncode, text), text)
        return out

    def _follow(self, process: subprocess.Popen[bytes]) -> "_Errors | None":
        if self.progress is None or process.stderr is None:
            return None
        errors = _Errors(process.stderr, self._show_progress)
        process.stderr = None  # communicate would read it, too
        errors.start()
        return errors

    def _show_progress(self, text: str) -> None:
        for secret in self.hidden:
            text = text.replace(secret, "***")
        if self.progress is not None:
            self.progress(text)

    @property
    def _mark(self) -> dict[str, str]:
        return {} if self.held is None else {OWNER: self.held.name}

    def hiding(self, texts: Iterable[str]) -> "Runner":
        return replace(self, hidden=(*self.hidden, *(text for text in texts if text)))

    def _clear(self, output: bytes) -> str:
        # A dying git ends its output with a NUL.
        text = output.decode("utf-8", "replace").replace("\0", "")
        for secret in self.hidden:
            text = text.replace(secret, "***")
        return text

    def _clean(self) -> dict[str, str]:
        """The user's environment without what would mislead git, Python and pip."""
        names = {
            name: value
            for name, value in self.env.items()
            if not name.startswith(("GIT_", "PYTHON")) and name not in _INHERITED_BY_PIP
        }
        # Only a variable overrides a setting of pip's configuration files.
        quiet = {"PIP_USER": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}
        return {
            **names,
            **quiet,
            "GIT_TERMINAL_PROMPT": "0",
            "PYTHONNOUSERSITE": "1",
            "LC_ALL": "C.UTF-8",
        }


def _describe(code: int, text: str) -> str:
    lines = [line for line in text.replace("\r", "\n").splitlines() if line.strip()]
    errors = [
        position
        for position, line in enumerate(lines)
        if line.lower().startswith(("error", "fatal"))
    ]
    # pip and git name the cause first, then what followed.
    shown = lines[errors[0] :][:_KEPT_LINES] if errors else lines[-_KEPT_LINES:]
    return " / ".join(line.strip() for line in shown) or f"ended with {code} and said nothing"


class _Errors(threading.Thread):
    """Passes on each line of standard error, and keeps the last ones."""

    def __init__(self, pipe: IO[bytes], show: Callable[[str], None]) -> None:
        super().__init__(daemon=True)
        self.output = bytearray()
        self._pipe = pipe
        self._show = show

    def run(self) -> None:
        line = b""
        with self._pipe:
            while chunk := os.read(self._pipe.fileno(), _CHUNK):
                self.output += chunk
                del self.output[:-_CHUNK]
                # git ends progress states with a carriage return.
                *lines, line = _LINE_ENDS.split(line[-_CHUNK:] + chunk)
                for text in filter(None, lines):
                    self._show(text.decode("utf-8", "replace").strip())


@dataclass(frozen=True)
class PrefixLock:
    """A prefix's lock. ``name`` identifies this setup; all that it starts carries it."""

    descriptor: int
    name: str


@contextlib.contextmanager
def exclusively(file: Path) -> Iterator[PrefixLock]:
    """Hold a prefix's lock. Raises DoctorError if another setup has it.

    What a killed setup left running also holds the lock, and is ended first.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    with open_lock(file) as descriptor:
        _take(descriptor, file)
        # Processes of a command may not have inherited the descriptor.
        _end_left_behind(_owner(descriptor)[1])
        name = secrets.token_hex(8)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()} {name}".encode(), 0)
        yield PrefixLock(descriptor, name)
        os.ftruncate(descriptor, 0)


def _owner(descriptor: int) -> tuple[int | None, str]:
    """Process and name of the last setup with the lock that has not ended by itself."""
    pid, _, name = os.pread(descriptor, 100, 0).decode("ascii", "replace").partition(" ")
    return int(pid) if pid.isdigit() else None, name


def _take(descriptor: int, file: Path) -> None:
    limit = time.monotonic() + 2 * _PATIENCE  # ending what is left behind may take one
    while not take_lock(descriptor, wait=False):
        # A lock just taken has no owner yet, or an earlier one.
        pid, name = _owner(descriptor)
        alive = pid is not None and psutil.pid_exists(pid)
        if alive or time.monotonic() > limit:
            who = f"process {pid}" if alive else "one that this process cannot end"
            raise DoctorError(f"another setup ({who}) works on {file.parent}; wait until it ends")
        _end_left_behind(name)
        time.sleep(0.1)


def _end_left_behind(name: str) -> None:
    if not name:
        return
    processes = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(OWNER) == name:
                process.kill()
                processes.append(process)
    limit = time.monotonic() + _PATIENCE
    while any(_runs(process) for process in processes) and time.monotonic() < limit:
        time.sleep(0.05)


def _runs(process: psutil.Process) -> bool:
    """A zombie holds nothing, and may never be reaped."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
