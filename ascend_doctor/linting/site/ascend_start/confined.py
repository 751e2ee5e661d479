"""A process that connects to nothing, starts nothing and writes nothing, and forks of it."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

_BLOCK = 1 << 16
_PR_SET_PDEATHSIG = 1
_NETWORK = {"socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg"}
_PROGRAMS = {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "pty.spawn"}
_CHANGES = {
    *("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate"),
    *("os.chmod", "os.chown", "os.utime", "os.setxattr", "shutil.rmtree"),
}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def confine(folder: str) -> None:
    """Allow writes only below ``folder``, from now on."""
    allowed = (folder + os.sep, os.devnull, "/dev/shm/")  # noqa: S108 - what torch shares

    def is_outside(path: Any) -> bool:
        if not isinstance(path, (str, bytes)):
            return False
        whole = os.path.realpath(os.fsdecode(path))
        return whole != folder and not whole.startswith(allowed)

    def watch(event: str, values: tuple[Any, ...]) -> None:
        if event in _NETWORK and values[0].family != socket.AF_UNIX:
            raise PermissionError("no network while a launch is examined")
        if event == "socket.getaddrinfo":
            raise PermissionError("no network while a launch is examined")
        if event in _PROGRAMS:
            raise PermissionError("no other program while a launch is examined")
        writes = event == "open" and isinstance(values[2], int) and values[2] & _WRITING
        if (writes and is_outside(values[0])) or (
            event in _CHANGES and any(map(is_outside, values[:2]))
        ):
            raise PermissionError("nothing is written while a launch is examined")

    sys.addaudithook(watch)


def end_with_parent() -> None:
    """Have the kernel end this process with its parent (prctl(2))."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def in_fork(work: Callable[[], Any], seconds: float) -> Any:
    """The result of ``work`` in a fork; None if that ends without an answer."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            end_with_parent()
            os.close(reading)
            answer = json.dumps(work()).encode()
            while answer:
                answer = answer[os.write(writing, answer) :]
        finally:
            os._exit(0)
    os.close(writing)
    text = _read_all(reading, time.monotonic() + seconds)
    os.close(reading)
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with contextlib.suppress(ValueError):
        return json.loads(text)
    return None


def _read_all(pipe: int, ends: float) -> bytes:
    parts = []
    while select.select([pipe], [], [], max(ends - time.monotonic(), 0))[0]:
        part = os.read(pipe, _BLOCK)
        if not part:
            break
        parts.append(part)
    return b"".join(parts)
