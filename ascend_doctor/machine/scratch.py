"""Temporary folders of this process: private, and removed however it ends."""

import atexit
import contextlib
from collections.abc import Iterator
from pathlib import Path

from ascend_doctor.errors import DoctorError
from ascend_doctor.machine.files import reason

_folders: set[str] = set()
_PREFIX = "ascend-doctor-"
_RANDOM = 8  # characters that tempfile appends
_SOCKET = 107  # characters that the path of a socket may have (unix(7))
_SHORT = "/tmp"  # noqa: S108 - a private folder is made in it


def new_folder(*, room: int = 0) -> Path:
    """A folder that no other user can enter. Raises DoctorError without a place for it.

    ``room``: characters that a socket's path below it needs. If they fit into TMPDIR itself,
    but not into a folder there, the folder is elsewhere.
    """
    import tempfile

    length = len(tempfile.gettempdir()) + room
    moved = length <= _SOCKET < length + len(f"/{_PREFIX}") + _RANDOM
    try:
        path = tempfile.mkdtemp(prefix=_PREFIX, dir=_SHORT if moved else None)
    except OSError as error:
        message = (
            f"no temporary folder can be made ({reason(error)}); set TMPDIR to one that can be"
        )
        raise DoctorError(message) from error
    _folders.add(path)
    return Path(path)


def remove(folder: Path) -> None:
    _remove_tree(folder)
    _folders.discard(str(folder))


@contextlib.contextmanager
def temporary(*, room: int = 0) -> Iterator[str]:
    folder = new_folder(room=room)
    try:
        yield str(folder)
    finally:
        remove(folder)


@atexit.register
def remove_all() -> None:
    """What is left, also of a process that ends without unwinding."""
    for folder in tuple(_folders):
        _remove_tree(folder)


def _remove_tree(folder: Path | str) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
