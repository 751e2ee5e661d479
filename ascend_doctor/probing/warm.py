"""A process that has imported torch, and forks the launches of a rehearsal."""

import contextlib
import json
import os
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence

import psutil

from ascend_doctor.machine.scratch import temporary
from ascend_doctor.matrix.catalog import folder as folder_of
from ascend_doctor.probing.request import ProbeRequest

_warm: list[tuple[socket.socket, subprocess.Popen[bytes]]] = []


class Forked(psutil.Process):
    """As Popen shows a launch."""

    returncode: int | None = None

    def poll(self) -> int | None:
        with contextlib.suppress(psutil.TimeoutExpired):
            self.returncode = self.wait(0)
        return self.returncode


@contextlib.contextmanager
def warmed(requests: Sequence[ProbeRequest]) -> Iterator[None]:
    """Import torch ahead, if several may be forked."""
    forked = [request for request in requests if request.forked]
    if len(forked) <= 1:
        yield
        return
    first = forked[0]
    orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    orders.settimeout(first.deadline)
    number = theirs.fileno()
    with temporary() as folder, orders:
        env = {**(os.environ if first.env is None else first.env), "TMPDIR": folder}
        env.pop("PYTHONSAFEPATH", None)
        if any(request.torchrun for request in forked):  # torch reads it once
            env.setdefault("OMP_NUM_THREADS", "1")
        script = str(folder_of("probes") / "_together.py")
        argv = [first.python, script, "serve", first.device, str(number)]
        null = subprocess.DEVNULL
        process = subprocess.Popen(  # noqa: S603 - no shell
            argv, stdin=null, stdout=null, stderr=null, env=env, pass_fds=[number],
            start_new_session=True,
        )  # fmt: skip
        theirs.close()
        _warm.append((orders, process))
        try:
            yield
        finally:
            _warm.clear()
            process.kill()
            process.wait()


def fork(
    argv: Sequence[str], env: Mapping[str, str], folder: str | None, output: int
) -> Forked | None:
    """Start a launch without an import; None where it has to be started as it is."""
    for orders, process in _warm:
        order = json.dumps({"command": argv[1:], "env": env, "folder": folder}).encode()
        with contextlib.suppress(OSError, ValueError, psutil.Error):
            socket.send_fds(orders, [order], [output, output])
            child = Forked(int(orders.recv(32)))
            orders.recv(32)
            if child.ppid() == os.getpid():
                return child
            child.kill()  # a server behind a wrapper forked it, and sees its end
        process.kill()
    return None
