"""Starts the ranks of a launch at true size, in place of torchrun.

    python -m ascend_simulator.ranks WORLD NPROC REAL PROGRAM [ARGUMENT...]

REAL are the ranks with a process, with commas between; the others are absent (absent.py). One
process imports what the program's own import lines name, and every rank is forked from it.
"""

import ast
import contextlib
import ctypes
import os
import runpy
import signal
import socket
import sys
from pathlib import Path

import torch

_MODULE = {"-m", "--module"}
_M_MMAP_THRESHOLD = -3  # malloc.h
_GIVEN_BACK = 1 << 18  # bytes
_GRACE = 30  # seconds
# Set for a rank whose program could not be imported before: it starts from nothing.
_COLD = "ASCEND_SIMULATOR_COLD"


class Program:
    """A script or a module, with its arguments."""

    def __init__(self, words: list[str]) -> None:
        self.is_module = words[0] in _MODULE
        self.name, *self.arguments = words[1:] if self.is_module else words

    def prepare(self) -> None:
        """Let modules see what they see when they are imported by the running program."""
        sys.argv = [self.name, *self.arguments]
        folder = os.getcwd() if self.is_module else os.path.dirname(os.path.abspath(self.name))
        sys.path.insert(0, folder)

    def warm(self) -> bool:
        """Run its import lines; gives whether ranks can be forked from what they made."""
        if self.is_module:
            return True
        try:
            tree = ast.parse(Path(self.name).read_bytes(), self.name)
            lines = [n for n in tree.body if isinstance(n, (ast.Import, ast.ImportFrom))]
            code = compile(ast.Module(lines, []), self.name, "exec")
            exec(code, {"__name__": "warm", "__file__": self.name})  # noqa: S102 - the job's own
        except BaseException:  # noqa: BLE001 - it fails again in each rank, and is shown there
            return False
        return not torch.npu.is_initialized()

    def run(self) -> None:
        if self.is_module:
            runpy.run_module(self.name, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(self.name, run_name="__main__")


def _locate_rank(rank: int, nproc: int) -> dict[str, str]:
    """Where a rank is, as torchrun says it."""
    node, local = divmod(rank, nproc)
    ledger, ending = os.path.splitext(os.environ["ASCEND_SIMULATOR_LEDGER"])
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(local),
        "GROUP_RANK": str(node),
        "ROLE_RANK": str(rank),
        "ASCEND_SIMULATOR_NODE": str(node),
        "ASCEND_SIMULATOR_LEDGER": f"{ledger}-{node}{ending}" if node else ledger + ending,
    }


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def _share(world: int, nproc: int, real: list[int]) -> None:
    os.environ.update({
        "WORLD_SIZE": str(world),
        "LOCAL_WORLD_SIZE": str(nproc),
        "ROLE_WORLD_SIZE": str(world),
        "GROUP_WORLD_SIZE": str(-(-world // nproc)),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(_free_port()),
        "ASCEND_SIMULATOR_REAL_RANKS": ",".join(map(str, real)),
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
    })  # fmt: skip


class RankProcesses:
    """The processes of the real ranks; the first that fails ends the others."""

    def __init__(self) -> None:
        self._ranks: dict[int, int] = {}
        self._are_ending = False

    def add(self, process: int, rank: int) -> None:
        self._ranks[process] = rank

    def pass_on_signals(self) -> None:
        """From now on what would end this process ends the ranks."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.end())
        signal.signal(signal.SIGALRM, lambda *_: self._send(signal.SIGKILL))

    def end(self) -> None:
        """Ask all to end; those that do not are killed, as torchrun does."""
        self._are_ending = True
        self._send(signal.SIGTERM)
        signal.alarm(_GRACE)

    def _send(self, number: int) -> None:
        for process in self._ranks:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)

    def wait(self) -> int:
        """Wait for all; gives the exit code of the first that failed."""
        code = 0
        while self._ranks:
            process, status = os.wait()
            rank = self._ranks.pop(process, None)
            ended = os.waitstatus_to_exitcode(status)
            if rank is None or not ended:
                continue
            code = code or (ended if ended > 0 else 128 - ended)
            if not self._are_ending:
                sys.stderr.write(f"rank {rank} failed (exitcode: {ended}) pid: {process}\n")
                self.end()
        return code


def main() -> None:
    """Run every real rank."""
    world, nproc = int(sys.argv[1]), int(sys.argv[2])
    real = [int(rank) for rank in sys.argv[3].split(",")]
    program = Program(sys.argv[4:])
    absent = len(real) < world
    if os.environ.pop(_COLD, ""):
        program.prepare()
        _run_rank(program, absent=absent)
        return
    _share(world, nproc, real)
    os.environ.update(_locate_rank(real[0], nproc))
    program.prepare()
    warm = program.warm()
    processes = RankProcesses()
    for rank in real:
        sys.stdout.flush()
        process = os.fork()
        if not process:
            os.environ.update(_locate_rank(rank, nproc))
            if not warm:
                os.environ[_COLD] = str(rank)
                os.execv(sys.executable, [sys.executable, "-m", *sys.orig_argv[2:]])  # noqa: S606
            ctypes.CDLL("libascendcl.so").sim_read_again()
            _let_watch()
            _run_rank(program, absent=absent)
            return
        processes.add(process, rank)
    processes.pass_on_signals()
    sys.exit(processes.wait())


def _run_rank(program: Program, *, absent: bool) -> None:
    torch.set_num_threads(1)
    # Host tensors of a size are given back when they are freed, not kept for the next of another.
    ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _GIVEN_BACK)
    if absent:
        from .absent import answer_for_absent

        answer_for_absent()
    program.run()


def _let_watch() -> None:
    """Begin to say where this rank stands, where a launch is watched (commands/stall_hook.py)."""
    if (hook := sys.modules.get("ascend_stall")) is not None:
        hook.install()
        sys.meta_path[0].find_spec("torch", None)  # it waits for the import, which is done


if __name__ == "__main__":
    main()
