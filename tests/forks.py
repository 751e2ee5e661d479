"""An interpreter whose processes are forked from one that has torch: its import takes seconds.

`interpreter` gives its path; a torchrun is beside it. Started, it is `python -I -S forks.py SOCKET
ITSELF ARGUMENTS`, for which a process is forked that runs the arguments in its own environment,
folder and output; it ends as that ends. torchrun, started so, starts its ranks so. What is read
when torch is imported is that of the first process: faults of simulated operators, the number of
threads.
"""

import atexit
import contextlib
import fcntl
import functools
import gc
import importlib
import json
import os
import runpy
import select
import shlex
import signal
import site
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NoReturn

_SIZE = 1 << 20
_TORCHRUN = (
    "torch.distributed.launcher.api",
    "torch.distributed.elastic.rendezvous.c10d_rendezvous_backend",
)
# The most open files passed on.
_FILES = 64


@contextlib.contextmanager
def interpreter(
    python: Path, folder: Path, env: Mapping[str, str], *modules: str
) -> Iterator[Path]:
    """``python`` with the first module loaded; each process imports the others anew."""
    import subprocess

    path, server = folder / "python", folder / "socket"
    server.unlink(missing_ok=True)
    words = shlex.join([str(python), "-I", "-S", __file__, str(server), str(path)])
    for file, more in ((path, ""), (folder / "torchrun", " -m torch.distributed.run")):
        file.write_text(f'#!/bin/sh\nexec {words}{more} "$@"\n')
        file.chmod(0o755)
    command = [str(python), __file__, "serve", str(server), *modules]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"ready\n"
            yield path
        finally:
            process.kill()


def serve(path: str, module: str, others: list[str]) -> None:
    importlib.import_module(module)
    for name in (*(_TORCHRUN if "torch" in sys.modules else ()), *others):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    packages = {name.partition(".")[0] for name in others}
    for name in list(sys.modules):
        if name.partition(".")[0] in packages:
            del sys.modules[name]
    own = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = [entry for entry in sys.path[1:] if entry not in own]
    gc.freeze()
    # At once: launchers of probes wait until none of these processes is left.
    signal.signal(signal.SIGCHLD, _reap)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(64)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _start(connection)
            connection.close()


def _reap(*_: object) -> None:
    """Reap children, whose cost then counts as this process's."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _start(connection: socket.socket) -> NoReturn:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    data, files, _, _ = socket.recv_fds(connection, _SIZE, _FILES)
    pid = os.fork()
    if pid == 0:
        connection.close()
        _end_as(functools.partial(_become, files, **json.loads(data)))
    for file in files:
        os.close(file)
    ended = os.pidfd_open(pid)
    ready, _, _ = select.select([ended, connection.fileno()], [], [])
    if ended not in ready:
        _end(pid)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with contextlib.suppress(BrokenPipeError):
        connection.send(str(code).encode())
    os._exit(0)


def _end_as(run: Callable[[], None]) -> NoReturn:
    """End as an interpreter does, but leave the modules as they are: their memory is shared."""
    code = 1
    try:
        run()
        code = 0
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            code = end.code or 0
        else:
            sys.stderr.write(f"{end.code}\n")
    except BaseException:  # noqa: BLE001 - as the interpreter does at its end
        sys.excepthook(*sys.exc_info())
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _end(pid: int) -> None:
    """Kill a process and its children, as whoever killed the client does."""
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGSTOP)
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        os.kill(pid, signal.SIGKILL)
        for child in children:
            _end(int(child))


def _become(
    files: list[int], *, numbers: list[int], argv: list[str], env: dict[str, str], cwd: str
) -> None:
    above = max(*numbers, *files) + 1
    copies = [fcntl.fcntl(file, fcntl.F_DUPFD, above) for file in files]
    os.closerange(3, above)
    for number, copy in zip(numbers, copies, strict=True):
        os.dup2(copy, number)
        os.close(copy)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    os.setsid()  # as torchrun starts its workers
    sys.executable, *words = argv
    sys.path[:0] = filter(None, env.get("PYTHONPATH", "").split(os.pathsep))
    _run_hooks()
    while (word := words.pop(0)) in {"-u", "-W", "-B"}:
        if word == "-W":
            warnings.simplefilter(words.pop(0))  # type: ignore[arg-type]
        elif word == "-u":
            sys.stdout.reconfigure(write_through=True)  # type: ignore[union-attr]
    if word == "-c":
        sys.argv = ["-c", *words[1:]]
        sys.path.insert(0, "")
        exec(compile(words[0], "<string>", "exec"), sys.modules["__main__"].__dict__)
    elif word == "-m":
        sys.argv = words
        sys.path.insert(0, cwd)
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = [word, *words]
        sys.path.insert(0, os.path.dirname(os.path.abspath(word)))
        runpy.run_path(word, run_name="__main__")


def _run_hooks() -> None:
    """Run the path's hooks for the start of an interpreter and the import of torch."""
    vars(sys).pop("_ascend_doctor_sites", None)
    sys.modules.pop("sitecustomize", None)
    site.execsitecustomize()
    for finder in sys.meta_path:
        if type(finder).__module__ == "ascend_stall":
            finder.find_spec("torch", None)


def ask(path: str, argv: list[str]) -> int:
    """Have a process forked; how it ended."""
    listed = [int(name) for name in os.listdir("/proc/self/fd")]
    numbers = [number for number in listed if os.path.lexists(f"/proc/self/fd/{number}")]
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        asked = {"numbers": numbers, "argv": argv, "env": dict(os.environ), "cwd": os.getcwd()}
        socket.send_fds(connection, [json.dumps(asked).encode()], numbers)
        code = int(connection.recv(16) or b"1")
    if code < 0:
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2], sys.argv[3], sys.argv[4:])
    else:
        sys.exit(ask(sys.argv[1], sys.argv[2:]))
