"""Runs programs in copies of a process that has imported torch_npu: the import takes seconds.

A line of standard input is a case in JSON, a line of standard output its exit code. With ranks, a
case runs as torchrun runs it: a store for all, and who fails ends the others. After ten minutes
all that a case started is killed.
"""

import contextlib
import json
import os
import runpy
import signal
import socket
import sys
from typing import Any

import torch
import torch_npu  # noqa: F401 - what the copies need

DEADLINE = 600


def main() -> None:
    for line in sys.stdin:
        case = json.loads(line)
        child = os.fork()
        if child == 0:
            run(case)
            return
        signal.signal(signal.SIGALRM, lambda *_, group=child: os.killpg(group, signal.SIGKILL))
        signal.alarm(DEADLINE)
        _, status = os.waitpid(child, 0)
        signal.alarm(0)
        os.write(1, b"%d\n" % os.waitstatus_to_exitcode(status))


def run(case: dict[str, Any]) -> None:
    """In the copy: what a new process would have of its own."""
    os.setpgid(0, 0)
    for number, name in enumerate((os.devnull, case["stdout"], case["stderr"])):
        file = os.open(name, os.O_RDWR)
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(case["env"])
    if case["ranks"]:
        launch(case)
    else:
        start(case)


def start(case: dict[str, Any]) -> None:
    sys.argv = case["argv"]
    sys.path[0] = os.path.dirname(sys.argv[0])
    runpy.run_path(case["argv"][0], run_name="__main__")


def launch(case: dict[str, Any]) -> None:
    ranks = case["ranks"]
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    os.environ |= {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }
    processes = []
    for rank in range(ranks):
        child = os.fork()
        if child == 0:
            listener.close()
            os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            start(case)
            return
        processes.append(child)
    # A store has threads, so it comes after the copies; until then the system takes connections.
    store = torch.distributed.TCPStore(  # noqa: F841 - serves as long as it is held
        "127.0.0.1",
        port,
        is_master=True,
        wait_for_workers=False,
        master_listen_fd=listener.detach(),
    )
    failed = False
    while processes:
        child, status = os.wait()
        processes.remove(child)
        if status and not failed:
            failed = True
            for process in processes:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGTERM)
    os._exit(failed)


main()
