"""The exit codes of the command line; scripts rely on them."""

import errno
import os

EXIT_OK = 0
EXIT_FINDINGS = 1
EXIT_USAGE = 2
EXIT_UNKNOWN = 3
# EX_SOFTWARE of sysexits.h.
EXIT_BUG = 70
# Verdicts of `--exit-verdict`, by sysexits.h: EX_TEMPFAIL, EX_UNAVAILABLE and EX_CONFIG.
EXIT_RESTART = 75
EXIT_EXCLUDE = 69
EXIT_STOP = 78
# 128 and SIGINT, as shells have it.
EXIT_INTERRUPTED = 130

# Too many files, memory, processes, and no room to write: limits of the machine.
_EXHAUSTED = {
    *(errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN),
    *(errno.ENOSPC, errno.EDQUOT, errno.EROFS),
}


def describe_exhaustion(error: BaseException) -> str:
    """What the machine or its limits did not give, which is not a bug; "" for other errors."""
    if isinstance(error, MemoryError):
        return "there is not enough memory, or a limit of it (ulimit -v)"
    if isinstance(error, RuntimeError) and "start new thread" in str(error):
        return "no thread can be started: a limit of processes (ulimit -u, pids.max)"
    if isinstance(error, OSError) and error.errno in _EXHAUSTED:
        return f"{error.filename or 'the machine'}: {error.strerror}"
    if isinstance(error, OSError) and error.filename == os.devnull:
        return f"{os.devnull}: {error.strerror}; the doctor needs it"
    # Python's importer takes a folder that it cannot open for an empty one.
    if isinstance(error, ImportError) and _lacks_descriptors():
        return "too many open files, or a limit of them (ulimit -n)"
    return ""


def _lacks_descriptors() -> bool:
    try:
        ends = os.pipe()
    except OSError:
        return True
    for end in ends:
        os.close(end)
    return False
