"""Locks of extensions that torch compiles: whoever compiles one holds its file open.

A killed process leaves it, and every later one waits (torch/utils/{file_baton,cpp_extension}.py).
"""

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ascend_doctor.exits import describe_exhaustion

# A host may have tens of thousands of processes, each with thousands of open files.
_SECONDS = 10.0
# Only this machine writes to these.
_LOCAL = frozenset(
    ("bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "ramfs", "tmpfs", "xfs", "zfs")
)


def folder(env: Mapping[str, str]) -> str:
    """Where torch compiles extensions; "" if nothing names a home."""
    home = env.get("HOME")
    cache = env.get("XDG_CACHE_HOME") or (home and f"{home}/.cache")
    return env.get("TORCH_EXTENSIONS_DIR") or (f"{cache}/torch_extensions" if cache else "")


def locks(root: str, names: Callable[[str], Iterable[str]]) -> Iterator[str]:
    """Paths below ``root``: NAME/lock, or pyVERSION_KIND/NAME/lock if no variable names it.

    Raises OSError if a folder may not be listed.
    """

    def list_names(path: str) -> Iterable[str]:
        try:
            return names(path)
        except (FileNotFoundError, NotADirectoryError):
            return ()

    for first in list_names(root):
        for second in list_names(f"{root}/{first}"):
            if second == "lock":
                yield f"{root}/{first}/lock"
            elif "lock" in list_names(f"{root}/{first}/{second}"):
                yield f"{root}/{first}/{second}/lock"


def examine(path: str) -> dict[str, Any]:
    """``age`` in seconds, ``holder`` (a process id or None), ``complete``, ``local``.

    ``complete``: every process could be examined; ``local``: no other machine writes there.
    Raises OSError if the lock is gone.
    """
    status = os.stat(path)
    holder, complete = _holder(status)
    return {
        "age": round(max(time.time() - status.st_mtime, 0), 1),
        "holder": holder,
        "complete": complete,
        "local": _file_system(os.path.realpath(path)) in _LOCAL,
    }


def remove_dead(env: Mapping[str, str], since: float) -> None:
    """Remove this user's locks made from ``since`` on and held by no process."""
    with contextlib.suppress(OSError):
        for path in list(locks(folder(env), os.listdir)):
            status = os.stat(path)
            if status.st_uid == os.geteuid() and status.st_mtime >= since:
                state = examine(path)
                if state["holder"] is None and state["complete"] and state["local"]:
                    os.unlink(path)


def _holder(lock: os.stat_result) -> tuple[int | None, bool]:
    """Of unreadable processes those of the owner count, except the first, init."""
    end = time.monotonic() + _SECONDS
    names = [name for name in os.listdir("/proc") if name.isdecimal()]
    complete = "1" in names  # without it, hidepid hides the processes of other users, proc(5)
    for name in names:
        if time.monotonic() > end:
            return None, False
        try:
            if any(_is_open(path, lock) for path in _descriptors(name)):
                return int(name), True
        except PermissionError:
            init = name == "1"
            complete = complete and (init or not _is_owned(f"/proc/{name}", lock.st_uid))
        except OSError as error:
            # An ended process holds nothing; one that could not be examined may hold it.
            complete = complete and not describe_exhaustion(error)
    return None, complete


def _descriptors(process: str) -> list[str]:
    folder = f"/proc/{process}/fd"
    return [f"{folder}/{number}" for number in os.listdir(folder)]


def _is_owned(path: str, user: int) -> bool:
    try:
        return os.stat(path).st_uid == user
    except OSError:
        return False


def _is_open(descriptor: str, lock: os.stat_result) -> bool:
    """Compares a path first: the status of a dead mount blocks."""
    try:
        if not os.readlink(descriptor).endswith("/lock"):
            return False
        status = os.stat(descriptor)
    except FileNotFoundError:  # closed in between
        return False
    return (status.st_dev, status.st_ino) == (lock.st_dev, lock.st_ino)


def _file_system(path: str) -> str:
    """The kind of a path's mount, proc(5); "" if it could not be determined."""
    best, kind = "", ""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return ""
    for line in lines:
        before, _, after = line.partition(" - ")
        point = before.split()[4].rstrip("/")
        if len(point) >= len(best) and (path + "/").startswith(f"{point}/"):
            best, kind = point, after.split()[0]
    return kind
