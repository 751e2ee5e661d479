"""What is asked of a launch, and who hears of it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ascend_doctor.machine.waiting import MORE
from ascend_doctor.probe_results import ProbeRun


class LaunchNodes(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes of a launch. ``rank`` is this one's, ``endpoint`` where all of them meet."""

    count: int = 1
    rank: int = 0
    endpoint: str = ""

    @property
    def numbers(self) -> tuple[str, ...]:
        return ("--nnodes", str(self.count), "--node-rank", str(self.rank))


class ProbeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A probe to run. ``probe`` is its kebab id, ``python`` the examined interpreter.

    ``level`` is the first level that runs it. ``torchrun``: its ranks need each other. ``agents``:
    it runs once on each node, without torchrun, and starts so many ranks. ``together``: the script
    that runs it with others in the same processes, "" if none may. ``forked``: from a process that
    has torch, if torchrun starts it with others. ``world_size`` counts the ranks of all ``nodes``.
    ``sizes`` are the requested parallel sizes, ``minutes`` is how long to soak, ``small`` asks for
    the sizes of the CPU, and ``needs`` must have passed. ``deadline`` is in seconds; ``shortened``:
    less than the probe's own. ``first_try``: how it timed out before a retry with ``patience``
    times the seconds. ``env`` is the examined environment, None for that of this process.
    """

    probe: str
    device: str
    python: str
    script: str
    level: int = 1
    world_size: int = 1
    torchrun: bool = False
    agents: int = 0
    together: str = ""
    forked: bool = False
    nodes: LaunchNodes = LaunchNodes()
    sizes: tuple[tuple[str, int], ...] = ()
    minutes: float = 0.0
    small: bool = False
    needs: tuple[str, ...] = ()
    deadline: float = 90.0
    shortened: bool = False
    patience: float = 1.0
    first_try: str = ""
    env: Mapping[str, str] | None = None

    @property
    def ranks(self) -> range:
        count = self.world_size // self.nodes.count
        return range(self.nodes.rank * count, (self.nodes.rank + 1) * count)

    @property
    def launcher(self) -> tuple[str, ...]:
        if not self.torchrun:
            return (self.python,)
        # A host name that does not resolve must not matter on one node; the kernel chooses the
        # port. Several nodes keep their given numbers.
        meet: tuple[str, ...] = ("--standalone", "--local-addr", "127.0.0.1")
        if self.nodes.count > 1:
            backend = ("--rdzv-backend", "static", "--rdzv-endpoint", self.nodes.endpoint)
            meet = (*self.nodes.numbers, *backend)
        local = ("--monitor-interval", "0.1", "--nproc-per-node", str(len(self.ranks)))
        return (self.python, "-m", "torch.distributed.run", *meet, *local)

    @property
    def shared_argv(self) -> tuple[str, ...]:
        """Of several probes, which follow it."""
        words = (self.together, *self.options)
        if self.forked and self.torchrun:
            return (self.python, self.together, "torchrun", self.device, *self.launcher[3:], *words)
        return (*self.launcher, *words)

    @property
    def options(self) -> tuple[str, ...]:
        asked = [text for name, size in self.sizes for text in (f"--{name}", str(size))]
        soak = ("--minutes", f"{self.minutes:g}") if self.minutes else ()
        small = ("--small",) if self.small else ()
        return ("--device", self.device, *asked, *soak, *small, *self._meeting)

    @property
    def _meeting(self) -> tuple[str, ...]:
        if not self.agents:
            return ()
        nodes = self.nodes
        meet = ("--rdzv-endpoint", nodes.endpoint) if nodes.count > 1 else ()
        return (*nodes.numbers, *meet, "--nproc-per-node", str(self.agents))

    @property
    def argv(self) -> tuple[str, ...]:
        return (*self.launcher, self.script, *self.options)

    def again(self, first_try: str) -> ProbeRequest:
        """The same once more, in its own processes, with more time."""
        return msgspec.structs.replace(
            self,
            forked=False,
            together="",
            deadline=self.deadline * MORE,
            patience=MORE,
            first_try=first_try,
        )

    @property
    def unforked(self) -> ProbeRequest:
        return msgspec.structs.replace(self, forked=False)

    def forks(self, count: int) -> bool:
        """Whether the first of so many probes of a launch has forked processes."""
        return self.forked and (count > 1 or not self.torchrun)

    def shares(self, other: ProbeRequest) -> bool:
        return self.together != "" and self._process == other._process

    @property
    def _process(self) -> tuple[object, ...]:
        return (self.together, self.forked, self.launcher, self.options, self.env)


class ProbeWatch:
    """Hears what happens while probes run."""

    def started(self, request: ProbeRequest) -> None: ...

    def entered(self, rank: int, stage: str, seconds: float) -> None:
        """``seconds`` are from the start of the launch."""

    def ended(self, run: ProbeRun) -> None: ...


def not_started(request: ProbeRequest, reason: str) -> ProbeRun:
    return ProbeRun(
        probe=request.probe,
        device=request.device,
        world_size=request.world_size,
        argv=request.argv,
        deadline=request.deadline,
        shortened=request.shortened,
        first_try=request.first_try,
        not_started=reason,
    )
