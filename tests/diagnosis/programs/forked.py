"""Ranks forked from one process that has imported torch: imports are most of a stall's cost.

`forked.py serve SOCKET` imports torch and torch_npu and waits; torchrun starts
`python -I -S forked.py SOCKET PROGRAM ARGUMENTS` for each rank, which has a rank forked that runs
PROGRAM in its own environment, folder and output, and ends as that ends. The doctor's hook is
loaded in the fork before the program, as at the start of an interpreter.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import runpy
import select
import signal
import socket
import sys

_SIZE = 1 << 20


def serve(path: str) -> None:
    import torch_npu  # noqa: F401, PLC0415 - a rank's client has none of it

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(64)
        while True:
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _start(connection)
            connection.close()


def _start(connection: socket.socket) -> None:
    """Fork the rank, say how it ended, and end it where its client is gone."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    data, outputs, _, _ = socket.recv_fds(connection, _SIZE, 3)
    pid = os.fork()
    if pid == 0:
        connection.close()
        os.setsid()  # as torchrun starts its workers
        code = 1
        try:
            _become(json.loads(data), outputs)
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except BaseException:  # noqa: BLE001 - as the interpreter does at its end
            sys.excepthook(*sys.exc_info())
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    for output in outputs:
        os.close(output)
    ended = os.pidfd_open(pid)
    ready, _, _ = select.select([ended, connection.fileno()], [], [])
    if ended not in ready:
        os.kill(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with contextlib.suppress(BrokenPipeError):
        connection.send(str(code).encode())
    os._exit(0)


def _become(asked: dict[str, object], outputs: list[int]) -> None:
    for number, output in enumerate(outputs):
        os.dup2(output, number)
        os.close(output)
    os.environ.clear()
    os.environ.update(asked["env"])  # type: ignore[call-overload]
    os.chdir(str(asked["cwd"]))
    sys.argv = list(asked["argv"])  # type: ignore[call-overload]
    sys.path[:0] = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if importlib.util.find_spec("ascend_stall"):
        importlib.import_module("ascend_stall").install()
    for finder in sys.meta_path:  # what the import of torch would have begun
        if type(finder).__module__ == "ascend_stall":
            finder.find_spec("torch", None)
    runpy.run_path(sys.argv[0], run_name="__main__")


def ask(path: str, argv: list[str]) -> int:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        asked = {"argv": argv, "env": dict(os.environ), "cwd": os.getcwd()}
        socket.send_fds(connection, [json.dumps(asked).encode()], [0, 1, 2])
        code = int(connection.recv(16) or b"1")
    if code < 0:
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    sys.exit(ask(sys.argv[1], sys.argv[2:]))
