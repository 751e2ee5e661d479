"""Processes that a rank forks as soon as it has torch, for what needs a fresh process later.

They have neither device, group nor thread, and each becomes one script when it is asked to, without
another import of torch. Where there is none a script is started by its interpreter.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import json
import os
import runpy
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import NoReturn

import _probe

MESSAGE = 1 << 20
# What stands for a descriptor that is passed on, which has another number there.
PASSED = "{descriptor}"


class Spare:
    """A forked process that waits for its script."""

    def __init__(self) -> None:
        # Of packets: a script's words and its descriptors come together or not at all.
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pid = os.fork()
        if not self.pid:
            self._ours.close()
            _become(theirs)
        theirs.close()

    def start(
        self, command: Sequence[str], env: Mapping[str, str], descriptors: Sequence[int]
    ) -> None:
        """Let it become a script. ``descriptors``: its stderr and stdout, and one to pass on."""
        text = json.dumps({"command": list(command), "env": dict(env)}).encode()
        socket.send_fds(self._ours, [text], list(descriptors))
        self._ours.close()


_waiting: list[Spare] = []


def fork(count: int) -> None:
    """Have so many ready. This process must not have touched a device or started a thread."""
    _waiting.extend(Spare() for _ in range(count))


def waiting() -> bool:
    return bool(_waiting)


def take() -> Spare | None:
    """One that has not become anything yet."""
    return _waiting.pop(0) if _waiting else None


def end() -> None:
    """Do without those that are left."""
    while (spare := take()) is not None:
        os.kill(spare.pid, 9)
        os.waitpid(spare.pid, 0)


def run(command: Sequence[str], env: Mapping[str, str]) -> int:
    """Run a script to its end, without its warnings; the exit code."""
    spare = take()
    if spare is None:
        quiet = [sys.executable, "-W", "ignore", *command]
        done = subprocess.run(quiet, check=False, stdin=subprocess.DEVNULL, env=env)  # noqa: S603
        return done.returncode
    spare.start(command, env, (2, 1))
    return os.waitstatus_to_exitcode(os.waitpid(spare.pid, 0)[1])


def _become(theirs: socket.socket) -> NoReturn:
    """Wait for a script, run it, and end as it does."""
    _probe.die_with_parent()
    text, descriptors, *_ = socket.recv_fds(theirs, MESSAGE, 3)
    theirs.close()
    # The rank has ended without a wish.
    if not text:
        os._exit(0)
    warnings.simplefilter("ignore")
    _run(text, descriptors)


def serve(orders: socket.socket) -> NoReturn:
    """Fork a process for each script that is asked for, and leave it to who asks: its parent."""
    gc.freeze()  # a collection in a fork would copy every page
    while True:
        text, descriptors, *_ = socket.recv_fds(orders, MESSAGE, 3)
        if not text:
            os._exit(0)
        between = os.fork()
        if not between:
            between, child = os.getpid(), os.fork()
            if child:
                orders.send(str(child).encode())
                os._exit(0)
            orders.close()
            while os.getppid() == between:
                time.sleep(0.001)
            _run(text, descriptors)
        os.waitpid(between, 0)
        for descriptor in descriptors:
            os.close(descriptor)
        orders.send(b"left")


def _run(text: bytes, descriptors: Sequence[int]) -> NoReturn:
    wish = json.loads(text)
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for descriptor, number in zip(descriptors, (2, 1), strict=False):
        os.dup2(descriptor, number)
    passed = str(descriptors[-1])
    os.environ.clear()
    os.environ.update(wish["env"])
    tempfile.tempdir = None
    os.chdir(wish.get("folder") or os.curdir)
    sys.argv = [passed if word == PASSED else word for word in wish["command"]]
    # As an interpreter does with the folder of a script.
    sys.path.insert(0, os.path.dirname(os.path.abspath(sys.argv[0])))
    code: object = 1
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
        code = 0
    except SystemExit as error:
        code = error.code
    except BaseException as error:  # noqa: BLE001 - it ends as an interpreter does
        sys.excepthook(type(error), error, error.__traceback__)
    # Exit handlers of Python and of libraries run. No module is freed: the fork would copy it.
    threading._shutdown()  # noqa: SLF001
    atexit._run_exitfuncs()  # noqa: SLF001
    sys.stdout.flush()
    sys.stderr.flush()
    ctypes.CDLL(None).exit(code if isinstance(code, int) else int(code is not None))
    os._exit(1)
