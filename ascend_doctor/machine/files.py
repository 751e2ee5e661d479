"""Files that are written for the user, read from anybody, or kept for this user alone.

The only module that opens such files: links, devices, pipes and other owners are thought of here.
"""

import contextlib
import errno
import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ascend_doctor.errors import DataError

_LINKS = 40  # as the kernel
_CHUNK = 1 << 15
MAX_DEPTH = 100  # folders below one that was named
_DESCRIPTOR = re.compile(
    r"/dev/(?:std(?P<name>in|out|err)|fd/(?P<dev>\d+))|/proc/self/fd/(?P<own>\d+)"
)
_STANDARD = {"in": 0, "out": 1, "err": 2}


def descriptor(path: str) -> int | None:
    """The descriptor of this process that a path means, such as /dev/stdout and <(...)."""
    meant = _DESCRIPTOR.fullmatch(path)
    if meant is None:
        return None
    return _STANDARD[meant["name"]] if meant["name"] else int(meant["dev"] or meant["own"])


# --- writing


def write_whole(path: str, content: str | bytes) -> None:
    """Write a file whole, through one beside it. Raises DataError with path and reason.

    Follows links. Writes directly to a device or a pipe; a file keeps its owner, its mode and
    its other names.
    """
    data = content.encode() if isinstance(content, str) else content
    try:
        if (number := descriptor(path)) is not None:
            write_all(number, data)
            return
        target = resolve(path)
        there = _status(target)
        if there is None:
            _replace(target, data, None)
        elif not _alone(there) or not _replace(target, data, there):
            _write_in_place(target, data, there)
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be written: {reason(error)}") from error


def _alone(there: os.stat_result) -> bool:
    """Whether it is a regular file without another name, and so replaceable."""
    return stat.S_ISREG(there.st_mode) and there.st_nlink == 1


def why_not_written(path: str) -> str:
    """Why ``write_whole`` could not write there, as far as visible beforehand; else ""."""
    if descriptor(path) is not None:
        return ""
    try:
        target = resolve(path)
        there = _status(target)
    except (OSError, ValueError) as error:
        return reason(error)
    return _why_not(target, there) if path else "that is no file"


def _why_not(target: str, there: os.stat_result | None) -> str:
    folder = os.path.dirname(target) or "."
    if there is None and not os.path.isdir(folder):
        return "there is no such folder"
    if there is not None and stat.S_ISDIR(there.st_mode):
        return "that is no file"
    if there is not None and os.access(target, os.W_OK):
        return ""
    if there is not None and not _alone(there):
        return "it cannot be written to"
    return "" if os.access(folder, os.W_OK) else "its folder cannot be written to"


def resolve(path: str) -> str:
    """Where links end. Raises OSError for another user's link in a world-writable folder.

    So does the kernel with fs.protected_symlinks (proc_sys_fs(5)), which not all systems set.
    """
    for _ in range(_LINKS):
        folder = os.path.dirname(path) or "."
        try:
            link = os.lstat(path)
        except FileNotFoundError:
            return path
        if _is_planted(folder, link):
            raise PermissionError(0, "it belongs to another user, in a folder where all may write")
        if not stat.S_ISLNK(link.st_mode):
            return path
        path = os.path.join(folder, os.readlink(path))
    raise OSError(0, "too many links")


def _is_planted(folder: str, status: os.stat_result) -> bool:
    there = os.stat(folder)
    shared = there.st_mode & stat.S_ISVTX and there.st_mode & stat.S_IWOTH
    return bool(shared) and status.st_uid not in {os.geteuid(), there.st_uid}


def _status(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None


def _replace(target: str, data: bytes, there: os.stat_result | None) -> bool:
    # Beside the target: rename is atomic only within one file system.
    scratch = f"{target}.{os.urandom(4).hex()}.new"
    try:
        # The kernel applies the umask, which a process cannot read without changing it.
        number = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
    except OSError:
        if there is None:
            raise
        return False
    try:
        try:
            if there is not None:
                mine = os.fstat(number)
                if (mine.st_uid, mine.st_gid) != (there.st_uid, there.st_gid):
                    os.fchown(number, there.st_uid, there.st_gid)
                os.fchmod(number, stat.S_IMODE(there.st_mode))
        except PermissionError:
            return False
        else:
            write_all(number, data)
        finally:
            os.close(number)
        os.replace(scratch, target)
        scratch = ""
    finally:
        if scratch:
            with contextlib.suppress(OSError):
                os.unlink(scratch)
    return True


def _write_in_place(target: str, data: bytes, there: os.stat_result) -> None:
    # Without O_NONBLOCK a pipe without a reader would block the run here.
    flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC
    number = os.open(target, flags)
    try:
        if not os.path.samestat(os.fstat(number), there):
            raise OSError(0, "it was replaced meanwhile")
        if stat.S_ISREG(there.st_mode):
            os.ftruncate(number, 0)
        os.set_blocking(number, True)
        write_all(number, data)
    finally:
        os.close(number)


def write_all(number: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(number, left) :]


def open_emptied(path: str) -> int:
    """A descriptor for a log that replaces an older one. Raises OSError.

    Refuses a link: its target must not be emptied.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        number = os.open(path, flags, 0o666)
    except OSError as error:
        if os.path.islink(path):
            raise OSError(error.errno, "it is a link; name the file itself") from error
        raise
    there = os.fstat(number)
    if stat.S_ISREG(there.st_mode):
        if there.st_nlink > 1 or _is_planted(os.path.dirname(path) or ".", there):
            os.close(number)
            raise OSError(0, "it has another name or another owner; remove it or name another")
        os.ftruncate(number, 0)
    os.set_blocking(number, True)
    return number


# --- reading


def read_bytes(path: str | Path, limit: int) -> bytes:
    """The content of a regular file, or of one of our descriptors. Raises DataError.

    Opens no pipe, device or socket elsewhere: it may never answer.
    """
    name = str(path)
    try:
        with os.fdopen(open_descriptor(name), "rb") as file:
            data = file.read(limit + 1)
    except (OSError, ValueError, MemoryError) as error:
        raise DataError(f"{name}: {reason(error)}") from error
    if len(data) > limit:
        raise DataError(f"{name}: larger than {limit >> 20} MiB")
    return data


def is_there(path: str) -> bool:
    """Whether this name exists; unreadable places count as existing."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    except OSError as error:
        return error.errno not in {errno.ENAMETOOLONG, errno.ELOOP}
    return True


def check_folder(path: str) -> None:
    """Raises DataError for an unreadable folder: an empty list would prove nothing."""
    try:
        os.listdir(path)
    except OSError as error:
        raise DataError(f"{path}: {reason(error)}") from error


def walk_folders(
    top: str, *, key: Callable[[str], Any] = str, is_entered: Callable[[str], bool] = bool
) -> Iterator[tuple[str, list[str]]]:
    """Folders below ``top`` with the names of their files, both in the order of ``key``.

    Skips links to folders and unreadable folders. ``is_entered`` takes a folder's name. Raises
    DataError for too deep nesting.
    """
    left = [(top, 0)]
    while left:
        folder, depth = left.pop()
        if depth > MAX_DEPTH:
            raise DataError(f"{top}: folders more than {MAX_DEPTH} deep; name the one you mean")
        try:
            with os.scandir(folder) as entries:
                rows = [(entry.name, entry.is_dir(), entry.is_symlink()) for entry in entries]
        except OSError:
            continue
        yield folder, sorted((name for name, is_dir, _ in rows if not is_dir), key=key)
        names = [name for name, is_dir, link in rows if is_dir and not link and is_entered(name)]
        left += [
            (os.path.join(folder, name), depth + 1) for name in sorted(names, key=key, reverse=True)
        ]


def open_regular(path: str) -> int:
    """A descriptor of a regular file to read. Raises OSError."""
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode):  # opening some devices does something
        raise OSError(0, "a folder, not a file" if stat.S_ISDIR(mode) else "not a regular file")
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise OSError(0, "not a regular file")
    return number


def read_start(number: int, limit: int) -> bytes:
    """Read and close. Of a setting the kernel clears as much memory as one read asks for."""
    parts = []
    try:
        while limit > 0 and (part := os.read(number, min(limit, _CHUNK))):
            parts.append(part)
            limit -= len(part)
    finally:
        os.close(number)
    return b"".join(parts)


def append_text(path: str, text: str) -> None:
    """Add to a regular file, made if need be. Raises DataError, also for a pipe or a device."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    why = "not a regular file"
    try:
        with os.fdopen(os.open(path, flags, 0o666), "ab") as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                file.write(text.encode())
                return
    except (OSError, ValueError) as error:
        why = reason(error)
    raise DataError(f"{path}: cannot be written: {why}")


def open_descriptor(path: str) -> int:
    """A descriptor to read a regular file or one of our descriptors. Raises OSError."""
    number = descriptor(path)
    return open_regular(path) if number is None else os.dup(number)


def not_trusted(path: str) -> str:
    """Why to ignore a file that was not named, "" if this user or root alone wrote it."""
    there = os.stat(path)
    if there.st_uid not in {0, os.geteuid()}:
        return "it belongs to another user"
    return "everybody can write it" if there.st_mode & stat.S_IWOTH else ""


def reason(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
