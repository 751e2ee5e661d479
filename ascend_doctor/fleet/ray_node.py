"""What runs in Ray's actor on a node."""

import socket
import sys
from collections.abc import Mapping

from ascend_doctor.fleet.supervised import run_supervised
from ascend_doctor.machine.live import DOCTOR


class OnNode:
    """One actor a node, with the interpreter and variables that training would get."""

    def locate(self) -> tuple[str, int]:
        """Ray's id of its node, once it is placed, and a port that is free there."""
        import ray

        with socket.socket() as free:
            free.bind(("", 0))
            return ray.get_runtime_context().get_node_id(), free.getsockname()[1]

    def check(self, arguments: tuple[str, ...], seconds: float, env: Mapping[str, str]) -> bytes:
        """The encoded Ending of ``ascend-doctor check`` with the JSON report as its output."""
        own = () if "--python" in arguments else ("--python", sys.executable)
        command = (*DOCTOR, "check", *own, *arguments)
        return run_supervised((*command, "--format", "json"), seconds, env)
