"""Several simulated nodes on this machine: a command on each, with names and NPUs of its own."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from ascend_doctor.probing.keeper import SIGNALLED, command_of_main, signals_passed_on
from ascend_doctor.simulator.layout import NODE_LIBRARY
from ascend_doctor.simulator.ledger import SUFFIX, hold
from ascend_doctor.simulator.machines import SimulatedMachine, write_tools

_GRACE = 15.0
_POLL = 0.1


class SimulatedNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node's additional variables, and the folders of its programs."""

    variables: dict[str, str]
    programs: str


def prepare_nodes(
    server: SimulatedMachine, count: int, folder: Path, env: Mapping[str, str]
) -> list[SimulatedNode]:
    """``count`` equal servers, with tools, ledgers and temporary folders below ``folder``.

    ``env`` is common to all.
    """
    port = str(_free_port())
    preloaded = ":".join(
        filter(None, [f"{env['ASCEND_HOME_PATH']}/lib64/{NODE_LIBRARY}", env.get("LD_PRELOAD")])
    )
    nodes = []
    for number in range(count):
        home = folder / f"node-{number}"
        (home / "tmp").mkdir(parents=True)
        write_tools(server, home, node=number)
        ledger = home / f"machine{SUFFIX}"
        hold(ledger)
        variables = {
            "ASCEND_SIMULATOR_NODE": str(number),
            "ASCEND_SIMULATOR_HOST": f"node-{number}",
            "ASCEND_SIMULATOR_LEDGER": str(ledger),
            "HOSTNAME": f"node-{number}",
            "LD_PRELOAD": preloaded,
            "TMPDIR": str(home / "tmp"),
        }
        # torchrun reads its own options from PET_; a typed option has precedence.
        for prefix in ("", "PET_"):
            variables |= {
                f"{prefix}NNODES": str(count),
                f"{prefix}NODE_RANK": str(number),
                f"{prefix}MASTER_ADDR": "127.0.0.1",
                f"{prefix}MASTER_PORT": port,
            }
        nodes.append(SimulatedNode(variables=variables, programs=str(home)))
    return nodes


def command_on_nodes(command: Sequence[str], nodes: Sequence[SimulatedNode]) -> list[str]:
    """The command that runs another one on each of the nodes, and ends when all have.

    Its exit code is that of the node that failed first; the others then have some time to end.
    """
    return [*command_of_main(__name__), msgspec.json.encode(nodes).decode(), *command]


def run_on_nodes(command: Sequence[str], nodes: Sequence[SimulatedNode]) -> int:
    """Run a command on each node with our own streams; gives the code of the first failure."""
    processes = []
    with signals_passed_on() as pass_on_to:
        for node in nodes:
            path = f"{node.programs}:{os.environ['PATH']}"
            env = {**os.environ, **node.variables, "PATH": path}
            processes.append(subprocess.Popen(command, env=env))  # noqa: S603 - the user's own
            pass_on_to(processes[-1])
        return _wait(processes)


def _wait(processes: Sequence[subprocess.Popen[bytes]]) -> int:
    failure, limit = 0, float("inf")
    while None in (codes := [process.poll() for process in processes]):
        if not failure and any(codes):
            failure = next(filter(None, codes))
            limit = time.monotonic() + _GRACE
        if time.monotonic() > limit:
            for process in processes:
                process.terminate()
            limit = float("inf")
        time.sleep(_POLL)
    failure = failure or next(filter(None, codes), 0)
    return failure if failure >= 0 else SIGNALLED - failure


def _free_port() -> int:
    with contextlib.closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def main() -> None:
    nodes = msgspec.json.decode(sys.argv[1], type=list[SimulatedNode])
    sys.exit(run_on_nodes(sys.argv[2:], nodes))
