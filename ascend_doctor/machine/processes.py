"""What /proc and py-spy say of other processes, without a word to them: proc(5)."""

import contextlib
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from ascend_doctor.machine.files import write_whole
from ascend_doctor.machine.search_path import locate

_SPY_SECONDS = 10.0
# For an environment, whose size a process chooses.
_ENVIRONMENT_BYTES = 1 << 20
# asm/unistd_64.h of x86, asm-generic/unistd.h of aarch64: calls that block a thread.
_CALLS: dict[str, dict[int, str]] = {
    "x86_64": {
        0: "read", 1: "write", 17: "pread64", 18: "pwrite64", 19: "readv", 20: "writev",
        34: "pause", 35: "nanosleep", 42: "connect", 43: "accept", 45: "recvfrom", 61: "wait4",
        72: "fcntl", 73: "flock", 74: "fsync", 75: "fdatasync", 128: "rt_sigtimedwait",
        130: "rt_sigsuspend", 230: "clock_nanosleep", 257: "openat",
    },
    "aarch64": {
        25: "fcntl", 32: "flock", 56: "openat", 63: "read", 64: "write", 65: "readv", 66: "writev",
        67: "pread64", 68: "pwrite64", 82: "fsync", 83: "fdatasync", 101: "nanosleep",
        115: "clock_nanosleep", 133: "rt_sigsuspend", 137: "rt_sigtimedwait", 202: "accept",
        203: "connect", 207: "recvfrom", 260: "wait4",
    },
}  # fmt: skip
# Their first argument is a descriptor.
_OF_FILES = frozenset(
    {"read", "write", "pread64", "pwrite64", "readv", "writev", "fsync", "fdatasync"}
    | {"flock", "fcntl", "connect", "accept", "recvfrom"}
)


class KernelCall(msgspec.Struct, frozen=True, kw_only=True):
    """The system call of a main thread: its name and file."""

    name: str
    file: str = ""


def process_ids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def state_of(pid: int) -> str:
    """``R``, ``S``, ``D``, ``T``, ``t`` or ``Z`` of proc_pid_stat(5); "gone" without a process."""
    return (_stat(pid) or ["gone"])[0]


def parent_of(pid: int) -> int:
    """The parent of a process, or 0."""
    fields = _stat(pid)
    return int(fields[1]) if fields else 0


def processor_seconds(pid: int) -> float:
    """Processor seconds that a process's main thread has used."""
    fields = _stat(pid, f"task/{pid}/")
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") if fields else 0.0


def _stat(pid: int, thread: str = "") -> list[str]:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/{thread}stat").read_text().rpartition(")")[2].split()
    return []


def environment_of(pid: int) -> dict[str, str] | None:
    """A process's initial environment; None if unreadable."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            data = file.read(_ENVIRONMENT_BYTES)
    except OSError:
        return None
    pairs = (entry.partition(b"=") for entry in data.split(b"\0") if b"=" in entry)
    return {name.decode("utf-8", "replace"): os.fsdecode(value) for name, _, value in pairs}


def kernel_call(pid: int) -> KernelCall | None:
    """What the main thread of a process waits in; None if it runs or the kernel does not say."""
    try:
        words = Path(f"/proc/{pid}/syscall").read_text().split()
        number, first = int(words[0]), int(words[1], 16)
    except (OSError, ValueError, IndexError):
        return None
    name = _CALLS.get(platform.machine(), {}).get(number)
    if name is None:
        return None
    file = ""
    if name in _OF_FILES:
        with contextlib.suppress(OSError):
            file = os.readlink(f"/proc/{pid}/fd/{first}")
    return KernelCall(name=name, file=file)


def catches(pid: int, number: int) -> bool:
    """Whether a process handles a signal that otherwise ends it. SigCgt of proc_pid_status(5)."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("SigCgt:"):
                return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def has_open(pid: int, target: str) -> bool:
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{pid}/fd/{name}") == target:
                    return True
    return False


def find_lock_holders(ranks: Mapping[int, int]) -> dict[int, int]:
    """The rank that holds a lock, by process that waits for it, proc_locks(5)."""
    holders: dict[str, int] = {}
    waiting: dict[int, int] = {}
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/locks").read_text().splitlines():
            number, _, rest = line.partition(":")
            blocked = rest.split()[0] == "->"
            pid = int(rest.split()[4 if blocked else 3])
            # Lines of a lock have its number: first the holder, then with an arrow the waiters.
            if not blocked:
                holders[number] = pid
            elif pid in ranks and holders.get(number) in ranks.keys() - {pid}:
                waiting[pid] = ranks[holders[number]]
    return waiting


def find_spy() -> str | None:
    """The path of py-spy: on PATH, or beside the doctor's interpreter."""
    beside = Path(sys.executable).with_name("py-spy")
    return locate("py-spy", os.environ) or (str(beside) if beside.is_file() else None)


def dump_stacks(pid: int) -> tuple[bytes, str]:
    """The stacks of a process as py-spy's JSON, else why not. Does not stop the process."""
    program = find_spy()
    if program is None:
        return b"", "py-spy is not installed"
    try:
        done = subprocess.run(  # noqa: S603 - a number, and no shell
            [program, "dump", "--json", "--nonblocking", "--pid", str(pid)],
            capture_output=True,
            timeout=_SPY_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return b"", f"py-spy gave no answer: {error}"
    if done.returncode == 0 and done.stdout.startswith(b"["):
        return done.stdout, ""
    lines = map(str.strip, done.stderr.decode("utf-8", "replace").splitlines())
    return b"", next(filter(None, lines), f"py-spy ended with {done.returncode}")


def spy(pid: int, path: Path) -> bool:
    """Write py-spy's stacks of a process, without its help; False if impossible."""
    stacks, _ = dump_stacks(pid)
    if stacks:
        write_whole(str(path), stacks)
    return bool(stacks)
