"""What is asked of a launch, and who hears of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from ascend_doctor.probe_results import ProbeRun


class ProbeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A probe to run. ``probe`` is its kebab id, ``python`` the examined interpreter.

    ``level`` is the first level that runs it; ``torchrun``: its ranks need each other;
    ``needs`` are probes that must have passed, where they ran;
    ``deadline`` is in seconds, ``shortened`` says that it is less than the probe's own;
    ``env`` is the examined environment, None for that of this process. ``script`` is the
    probe's file.
    """

    probe: str
    device: str
    python: str
    script: str
    level: int = 1
    world_size: int = 1
    torchrun: bool = False
    needs: tuple[str, ...] = ()
    deadline: float = 90.0
    shortened: bool = False
    env: Mapping[str, str] | None = None

    @property
    def argv(self) -> tuple[str, ...]:
        """The command that repeats the probe by hand."""
        launcher: tuple[str, ...] = ()
        if self.torchrun:
            # A host name that does not resolve must not matter on one node; the port is the
            # kernel's choice.
            launcher = (
                *("-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1"),
                *("--monitor-interval", "0.1", "--nproc-per-node", str(self.world_size)),
            )
        return (self.python, *launcher, self.script, "--device", self.device)


class Watch(Protocol):
    """Hears what happens while probes run."""

    def started(self, request: ProbeRequest) -> None: ...

    def entered(self, rank: int, stage: str, seconds: float) -> None:
        """A rank entered a stage, ``seconds`` after the start of the launch."""
        ...

    def ended(self, run: ProbeRun) -> None: ...


class Unwatched:
    """Nobody looks."""

    def started(self, request: ProbeRequest) -> None: ...

    def entered(self, rank: int, stage: str, seconds: float) -> None: ...

    def ended(self, run: ProbeRun) -> None: ...


def not_started(request: ProbeRequest, reason: str) -> ProbeRun:
    """The run of a probe that was asked for and did not run."""
    return ProbeRun(
        probe=request.probe,
        device=request.device,
        world_size=request.world_size,
        argv=request.argv,
        deadline=request.deadline,
        shortened=request.shortened,
        not_started=reason,
    )
