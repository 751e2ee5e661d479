"""What starts the check on many machines: a scheduler that is there already, never one of ours."""

from typing import NamedTuple, Protocol

import msgspec


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One check of a fleet.

    ``check`` are the arguments of ``ascend-doctor check`` on every node, without its formats and
    files. Every node writes its JSON report as ``NODE.json`` into ``folder``, which the engine may
    take as shared or fill from what nodes send. ``nodes`` are the hosts to check, none for all
    that the engine has, and ``count`` how many where it is to choose. ``deadline`` is in seconds,
    for everything; what has not reported then is ended.
    """

    folder: str
    check: tuple[str, ...]
    deadline: float
    nodes: tuple[str, ...] = ()
    count: int | None = None


class Silent(NamedTuple):
    """A node that wrote no report, and why, as the engine knows it."""

    node: str
    reason: str


class Engine(Protocol):
    """Starts the check on every node and waits for it."""

    def run(self, job: Job) -> tuple[Silent, ...]:
        """Reports lie in the job's folder; gives the nodes without one.

        Raises DataError where the engine itself cannot be used: that is no node's fault.
        """
        ...
