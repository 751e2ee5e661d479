"""Files of this user alone, such as caches: what others could have written is not trusted."""

import os
import stat
from pathlib import Path

from ascend_doctor.machine.files import write_all

_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def is_mine(there: os.stat_result) -> bool:
    """Whether this user owns it and no other can write it."""
    return there.st_uid == os.geteuid() and not there.st_mode & _OTHERS


def private_folder(path: str | Path) -> Path:
    """A folder that only this user can write, made if need be. Raises OSError."""
    folder = Path(path)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    there = os.lstat(folder)
    if not stat.S_ISDIR(there.st_mode) or not is_mine(there):
        raise PermissionError(
            0, "it is a link, belongs to another user, or others can write it", str(folder)
        )
    return folder


def read_mine(path: Path) -> bytes | None:
    """A file of this user in the user's folder; None without a trusted one."""
    try:
        folder = os.lstat(path.parent)
        if not stat.S_ISDIR(folder.st_mode) or not is_mine(folder):
            return None
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags), "rb") as file:
            there = os.fstat(file.fileno())
            return file.read() if stat.S_ISREG(there.st_mode) and is_mine(there) else None
    except OSError:
        return None


def write_mine(path: Path, data: bytes) -> None:
    """Write a file that only this user can read, whole or not at all. Raises OSError."""
    private_folder(path.parent)
    scratch = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    try:
        number = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            write_all(number, data)
        finally:
            os.close(number)
        scratch.replace(path)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise
