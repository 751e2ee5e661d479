"""The only door to the machine: files, commands and values.

Collectors take a ``Machine``, live or recorded, and never touch the operating system themselves.
"""

import atexit
import contextlib
import fnmatch
import functools
import math
import os
import selectors
import signal
import stat as stat_module
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import msgspec

from ascend_doctor.exits import describe_exhaustion
from ascend_doctor.machine.files import open_regular, read_start
from ascend_doctor.machine.patience import patience
from ascend_doctor.machine.search_path import locate, trim_path
from ascend_doctor.machine.waiting import Deadline, await_end, describe_load

# The doctor as a command, and one of its modules: never from the current folder.
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DOCTOR = (sys.executable, "-I", os.path.join(_PACKAGE, "__main__.py"))
_SAFE_PATH = (3, 11)  # the first Python with -P
MODULE = (sys.executable, *(("-P",) if sys.version_info >= _SAFE_PATH else ()), "-m")
# Files of /proc, /etc and CANN are far smaller; a wrong path may lead to anything.
READ_LIMIT = 1 << 20
OUTPUT_LIMIT = 4 << 20
DEADLINE = 30.0
_LOOK = 0.2
# For an ended command: the rest in its pipes comes at once.
_LINGER = 1.0


class ProgramMissing(Exception):  # noqa: N818 - a missing program is an answer
    """A command's program is not installed or not executable."""


class NotRecorded(Exception):  # noqa: N818 - a gap of a replayed machine
    """A replayed machine has no answer to this question."""


class Completed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A finished command. ``exit_code`` is negative for a signal, None after a time-out.

    ``truncated``: output reached ``OUTPUT_LIMIT`` bytes a stream, which ended the command.
    ``seconds`` exclude processor waits; ``load`` is set after a time-out on a busy machine.
    """

    exit_code: int | None = 0
    stdout: str = ""
    stderr: str = ""
    timed_out: bool = False
    truncated: bool = False
    seconds: float = 0.0
    load: str = ""


class FileStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """``kind``: file, directory, char, block, other. ``target``: where links end.

    ``readable`` and ``writable``: what this process may do.
    """

    kind: str
    mode: str = ""
    uid: int | None = None
    gid: int | None = None
    size: int = 0
    target: str = ""
    readable: bool = True
    writable: bool = True


class Machine(Protocol):
    env: Mapping[str, str]

    def run(
        self,
        argv: list[str],
        *,
        deadline: float = DEADLINE,
        name: str = "",
        env: Mapping[str, str] | None = None,
    ) -> Completed:
        """Run a command without a shell; ``name`` replaces argv in recordings.

        Raises ProgramMissing. A time-out is a value of the result.
        """

    def read(self, path: str, *, limit: int = READ_LIMIT) -> str:
        """Text of a file, undecodable bytes replaced, at most ``limit`` bytes. Raises OSError."""

    def status(self, path: str) -> FileStatus:
        """Status of a path, following links. Raises OSError."""

    def names(self, path: str) -> tuple[str, ...]:
        """Sorted names in a folder. Raises OSError."""

    def value(self, key: str, ask: Callable[[], Any]) -> Any:
        """The JSON-like answer of ``ask``, recorded under ``key``. Raises what ``ask`` raises."""


def exists(machine: Machine, path: str) -> bool:
    try:
        machine.status(path)
    except OSError:
        return False
    return True


def is_directory(machine: Machine, path: str) -> bool:
    try:
        return machine.status(path).kind == "directory"
    except OSError:
        return False


def read_or_none(machine: Machine, path: str) -> str | None:
    """Text of a file, None if missing or unreadable."""
    try:
        return machine.read(path)
    except OSError:
        return None


def names_or_none(machine: Machine, folder: str) -> tuple[str, ...] | None:
    try:
        return machine.names(folder)
    except OSError:
        return None


def matches(machine: Machine, folder: str, pattern: str) -> tuple[str, ...]:
    """Paths in ``folder`` with names that match ``pattern``; empty without the folder."""
    names = names_or_none(machine, folder) or ()
    return tuple(os.path.join(folder, n) for n in names if fnmatch.fnmatchcase(n, pattern))


# --- live


class LiveMachine:
    """The machine that the doctor runs on. ``env`` is the examined environment.

    ``started``: the requested programs that it found.
    """

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        self.env: Mapping[str, str] = dict(os.environ if env is None else env)
        self.started: set[str] = set()
        self._real_folder = functools.cache(os.path.realpath)

    def run(
        self,
        argv: list[str],
        *,
        deadline: float = DEADLINE,
        name: str = "",  # noqa: ARG002 - only recordings need it
        env: Mapping[str, str] | None = None,
    ) -> Completed:
        program, clean = start_of(argv[0], self.env if env is None else env)
        _starting.append(argv[0])
        try:
            process = subprocess.Popen(  # noqa: S603 - no shell
                [program, *argv[1:]],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=clean,
                # One signal ends a separate session with all children; Ctrl-C does not reach it.
                start_new_session=True,
            )
            _running.add(process)
        except (OSError, ValueError) as error:
            if describe_exhaustion(error):
                raise
            raise ProgramMissing(
                f"{argv[0]}: {getattr(error, 'strerror', None) or error}"
            ) from error
        finally:
            _starting.remove(argv[0])
        self.started.add(argv[0])
        with _running_until_done(process):
            return _gather(process, deadline * patience().factor)

    def read(self, path: str, *, limit: int = READ_LIMIT) -> str:
        return read_start(open_regular(path), limit).decode("utf-8", "replace")

    def status(self, path: str) -> FileStatus:
        entry = os.stat(path)
        return FileStatus(
            kind=kind_of(entry.st_mode),
            mode=f"{stat_module.S_IMODE(entry.st_mode):04o}",
            uid=entry.st_uid,
            gid=entry.st_gid,
            size=entry.st_size,
            target=self._real(path),
            readable=os.access(path, os.R_OK),
            writable=os.access(path, os.W_OK),
        )

    def _real(self, path: str) -> str:
        """Where links end; of each folder they are followed once."""
        folder, name = os.path.split(path)
        if name in {"", ".", ".."} or os.path.islink(path):
            return os.path.realpath(path)
        return os.path.join(self._real_folder(folder), name)

    def names(self, path: str) -> tuple[str, ...]:
        return tuple(sorted(os.listdir(path)))

    def value(self, key: str, ask: Callable[[], Any]) -> Any:  # noqa: ARG002 - recordings need it
        return ask()


def start_of(name: str, env: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """A program's path and start environment, by trusted folders only. Raises ProgramMissing."""
    program = locate(name, env)
    if program is None:
        raise ProgramMissing(f"{name}: No such file or directory")
    path = {"PATH": trim_path(env["PATH"])} if "PATH" in env else {}
    return program, {**env, **path}


def kind_of(mode: int) -> str:
    for name, test in (
        ("file", stat_module.S_ISREG),
        ("directory", stat_module.S_ISDIR),
        ("char", stat_module.S_ISCHR),
        ("block", stat_module.S_ISBLK),
    ):
        if test(mode):
            return name
    return "other"


def _gather(process: subprocess.Popen[bytes], deadline: float) -> Completed:
    wait, linger = Deadline(deadline, process.pid), math.inf
    chunks: dict[str, list[bytes]] = {"stdout": [], "stderr": []}
    sizes = {"stdout": 0, "stderr": 0}
    truncated = False
    with selectors.DefaultSelector() as selector:
        for stream in ("stdout", "stderr"):
            selector.register(getattr(process, stream), selectors.EVENT_READ, stream)
        while selector.get_map() and not truncated:
            if process.poll() is not None:  # a daemon that it left may hold its pipes for ever
                linger = min(linger, time.monotonic() + _LINGER)
            left = min(wait.time_left(), linger - time.monotonic())
            ready = selector.select(min(left, _LOOK)) if left > 0 else []
            if not ready and left <= 0:
                break
            for key, _ in ready:
                data = os.read(key.fd, 65536)
                if not data:
                    selector.unregister(key.fileobj)
                    continue
                chunks[key.data].append(data)
                sizes[key.data] += len(data)
                truncated = sizes[key.data] > OUTPUT_LIMIT
    timed_out = not truncated and not await_end(process, wait)
    kill_group(process)
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    texts = {name: b"".join(parts)[:OUTPUT_LIMIT] for name, parts in chunks.items()}
    return Completed(
        exit_code=None if timed_out or truncated else process.returncode,
        stdout=texts["stdout"].decode("utf-8", "replace"),
        stderr=texts["stderr"].decode("utf-8", "replace"),
        timed_out=timed_out,
        truncated=truncated,
        seconds=round(wait.spent, 3),
        load=describe_load() if timed_out and wait.is_busy else "",
    )


def wait_for(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Wait at most this many seconds for a process; whether it has ended."""
    try:
        process.wait(max(seconds, 0))
    except subprocess.TimeoutExpired:
        return False
    return True


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL to a command's session; leaves a process stuck in the kernel."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    # SIGKILL does not end a process in an uninterruptible call (a hung driver or mount).
    wait_for(process, 2)


# Commands of collector threads that an interrupted run leaves behind, and whether it ends now.
_starting: list[str] = []
_running: set[subprocess.Popen[bytes]] = set()
_ending = threading.Event()


@contextlib.contextmanager
def _running_until_done(process: subprocess.Popen[bytes]) -> Iterator[None]:
    if _ending.is_set():  # the thread goes on to its next command while the interpreter ends
        kill_group(process)
    try:
        yield
    except BaseException:  # such as no descriptor left to read its output with
        kill_group(process)
        raise
    finally:
        _running.discard(process)


def end_all() -> None:
    """SIGKILL to all running commands, without waiting for those stuck in the kernel."""
    _ending.set()
    for process in tuple(_running):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    if _before is not None:
        _end_strays(_before)


@atexit.register
def _end_running() -> None:
    _ending.set()
    limit = time.monotonic() + _LINGER
    while _starting and time.monotonic() < limit:
        time.sleep(0.001)
    for process in tuple(_running):
        kill_group(process)


# linux/include/uapi/linux/prctl.h; Python has no name for it.
_PR_SET_CHILD_SUBREAPER = 36
_STRAYS = 2.0
_alone = False
_before: set[int] | None = None


def be_alone() -> None:
    """Declare this process the doctor's, not one that others start children in."""
    global _alone  # noqa: PLW0603 - there is one process
    _alone = True


def adopt(*, on: bool) -> None:
    """Whether orphaned descendants become children of this process instead of process 1."""
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(on), 0, 0, 0)


@contextlib.contextmanager
def strays_ended() -> Iterator[None]:
    """Ends, with the block, what commands leave behind in separate sessions, as daemons do."""
    global _before  # noqa: PLW0603 - as above
    if not _alone:
        yield
        return
    adopt(on=True)
    _load_unwinder()
    _before = _children()
    spare = os.eventfd(0)  # commands may use up the descriptors, and children are listed in files
    try:
        yield
    finally:
        os.close(spare)
        _end_strays(_before)
        _before = None
        adopt(on=False)


def _load_unwinder() -> None:
    """Load glibc's library for ending a thread, while descriptors are left.

    Threads of late collectors end with the interpreter. Without descriptors the process aborts:
    "libgcc_s.so.1 must be installed for pthread_exit to work".
    """
    import ctypes

    with contextlib.suppress(OSError):
        ctypes.CDLL("libgcc_s.so.1")


def _children() -> set[int]:
    pids: set[int] = set()
    threads: list[str] = []
    with contextlib.suppress(OSError):  # no descriptor is left
        threads = os.listdir("/proc/self/task")
    for thread in threads:
        with contextlib.suppress(OSError), open(f"/proc/self/task/{thread}/children") as file:
            pids.update(map(int, file.read().split()))
    return pids


def _end_strays(before: set[int]) -> None:
    """Ended strays pass their children to this process: it takes several looks."""
    limit = time.monotonic() + _STRAYS
    while (strays := _children() - before) and time.monotonic() < limit:
        for pid in strays:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.005)
