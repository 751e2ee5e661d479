"""What runs in Ray's actor on a node."""

from __future__ import annotations

import sys

from ascend_doctor.fleet.supervised import run_supervised


class OnNode:
    """One actor a node. Its interpreter and its variables are those that training would get."""

    def place(self) -> str:
        """Ray's id of the node that it stands on, once it stands."""
        import ray  # noqa: PLC0415 - an optional extra

        found: str = ray.get_runtime_context().get_node_id()
        return found

    def check(self, arguments: tuple[str, ...], seconds: float) -> bytes:
        """The encoded Ending of ``ascend-doctor check`` with the JSON report as its output."""
        own = () if "--python" in arguments else ("--python", sys.executable)
        command = (sys.executable, "-m", "ascend_doctor", "check", *own, *arguments)
        return run_supervised((*command, "--format", "json"), seconds)
