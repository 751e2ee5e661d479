"""A file that one process at a time holds, by flock(2).

No library around it: commands of a setup inherit the descriptor, so that the lock outlives a killed
one as long as a command of it runs.
"""

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from ascend_doctor.errors import DoctorError


@contextlib.contextmanager
def open_lock(file: Path) -> Iterator[int]:
    """The descriptor of a lock not held yet; closing it releases the lock.

    Raises DoctorError for a link, a pipe, or a file with another name.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(file, flags, 0o666)
    except OSError as error:
        raise DoctorError(f"{file}: {error.strerror}; it has to be a file of its own") from error
    try:
        there = os.fstat(descriptor)
        if not stat.S_ISREG(there.st_mode) or there.st_nlink > 1:
            raise DoctorError(f"{file}: it is no file of its own; remove it")
        yield descriptor
    finally:
        os.close(descriptor)


def take_lock(descriptor: int, *, wait: bool) -> bool:
    """Whether this process alone holds it now. ``wait``: block while another has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True
