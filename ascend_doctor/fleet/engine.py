"""What starts the check on many machines: a scheduler that is there already, never one of ours."""

from typing import NamedTuple, Protocol

import msgspec


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One check of a fleet.

    ``check`` are the arguments of ``ascend-doctor check`` on every node, without its formats
    and files. Every node writes its JSON report as ``NODE.json`` into ``folder``, which the
    engine may take as shared or fill from what nodes send. ``nodes`` are the hosts to check,
    all of the engine by default, and ``count`` how many if it chooses. ``deadline`` is in
    seconds, for everything; checks without a report then are ended.
    """

    folder: str
    check: tuple[str, ...]
    deadline: float
    nodes: tuple[str, ...] = ()
    count: int | None = None


class Silent(NamedTuple):
    """A node that wrote no report, and the engine's reason."""

    node: str
    reason: str


class Engine(Protocol):
    """Starts the check on every node and waits for it."""

    def run(self, job: Job) -> tuple[Silent, ...]:
        """Fill the job's folder with reports; gives the nodes without one.

        Raises DataError if the engine itself cannot be used, which is not a node's fault.
        """
        ...
