"""Which probes run at which level, in which order, and in how much time. Never imports torch."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from ascend_doctor.machine.patience import patience
from ascend_doctor.matrix.catalog import folder
from ascend_doctor.probe_results import ProbeRun
from ascend_doctor.probing.launching import LEAST_SECONDS, launch_together
from ascend_doctor.probing.request import (
    LaunchNodes,
    ProbeRequest,
    ProbeWatch,
    Unwatched,
    not_started,
)


class _Entry(NamedTuple):
    """A shipped probe: its first level, and its deadline on an accelerator and on the CPU.

    ``needs`` are the probes without which it would fail for their reasons. What runs under torchrun
    shares its processes with others, and ``forked`` what one process can fork that has torch, where
    each ends for itself. ``soaks`` lasts as many minutes as are asked for, beyond its
    deadline. ``agents``: it runs once on every node, and starts the ranks of this node itself.
    """

    probe: str
    level: int
    seconds: float
    seconds_cpu: float
    torchrun: bool = False
    needs: tuple[str, ...] = ("inspect-env", "device")
    soaks: bool = False
    sized: bool = False
    agents: bool = False
    forked: bool = False


# Without an import of MindSpeed nobody comes to megatron.core.
_MEGATRON = ("inspect-env", "device", "mindspeed-patches")
# What a launch over all nodes needs.
_REACHED = ("inspect-env", "device", "pair-rounds")
_LINKED = (*_REACHED, "allreduce")
_GROUPS = (*_LINKED, "mindspeed-patches")
# From 0.14.0 on Megatron's optimizer gathers objects over all ranks.
_TRAINS = (*_GROUPS, "object-collectives")

# In the order in which they run. The deadlines are those of the specifications: HCCL needs 140 s
# to report a failed link, and operators compile at their first call.
_PROBES = (
    _Entry("inspect-env", 1, 300.0, 300.0, needs=()),
    # It imports nothing, so it says what it sees where torch does not import, too.
    _Entry("megatron-tree", 1, 90.0, 90.0, needs=()),
    _Entry("port", 1, 30.0, 30.0, needs=()),
    _Entry("mindspeed-patches", 1, 300.0, 90.0, needs=("inspect-env",)),
    _Entry("entry-points", 1, 300.0, 300.0, needs=("inspect-env",)),
    _Entry(
        "megatron-calls", 1, 120.0, 90.0, needs=("inspect-env", "mindspeed-patches"), forked=True
    ),
    _Entry("device", 2, 300.0, 90.0, needs=("inspect-env",), forked=True),
    _Entry("mindspeed-forward", 2, 300.0, 90.0, needs=_MEGATRON),
    _Entry("bool-index", 2, 300.0, 90.0, forked=True),
    _Entry("fused-softmax", 2, 300.0, 90.0, forked=True),
    _Entry("dtype", 2, 300.0, 90.0, forked=True),
    _Entry("flash-attention", 2, 600.0, 90.0, forked=True),
    _Entry("fused-ops", 2, 600.0, 90.0, forked=True),
    _Entry("triton-kernel", 2, 300.0, 120.0),
    _Entry("attention-mask-rebuild", 2, 120.0, 90.0, forked=True),
    _Entry("fp8", 2, 300.0, 90.0, needs=_MEGATRON, forked=True),
    _Entry("single-process", 2, 300.0, 90.0, needs=_MEGATRON, forked=True),
    # Before any launch over all nodes, which would only hang where one does not come.
    _Entry("pair-rounds", 3, 900.0, 240.0, agents=True),
    _Entry("device-per-rank", 3, 300.0, 90.0, torchrun=True, needs=_REACHED),
    _Entry("allreduce", 3, 300.0, 90.0, torchrun=True, needs=_REACHED),
    _Entry("collectives", 3, 300.0, 90.0, torchrun=True, needs=_LINKED),
    _Entry("bound-device-id", 3, 300.0, 90.0, torchrun=True, needs=_LINKED),
    _Entry("object-collectives", 3, 600.0, 120.0, torchrun=True, needs=_GROUPS),
    _Entry("parallel-groups", 3, 300.0, 120.0, torchrun=True, needs=_GROUPS),
    _Entry("weight-sync", 3, 300.0, 90.0, torchrun=True, needs=_LINKED),
    _Entry("vocab-parallel-logprob", 3, 300.0, 180.0, torchrun=True, needs=_GROUPS),
    _Entry("sequence-gather", 3, 300.0, 180.0, torchrun=True, needs=_GROUPS),
    _Entry("expert-shapes", 3, 300.0, 180.0, torchrun=True, needs=_GROUPS),
    _Entry("lora-tied-embeddings", 3, 300.0, 180.0, torchrun=True, needs=_TRAINS),
    _Entry("lora-sequence-parallel", 3, 300.0, 180.0, torchrun=True, needs=_TRAINS),
    _Entry("lora-experts", 3, 300.0, 180.0, torchrun=True, needs=_TRAINS),
    _Entry("large-groups", 3, 300.0, 120.0, sized=True, needs=_MEGATRON, forked=True),
    _Entry("smoke-train", 3, 900.0, 240.0, torchrun=True, needs=_TRAINS),
    _Entry("bandwidth", 4, 600.0, 120.0, torchrun=True, needs=_LINKED),
    _Entry("gemm", 4, 300.0, 90.0, torchrun=True, needs=_LINKED),
    _Entry("hbm", 4, 300.0, 90.0, torchrun=True, needs=_LINKED),
    _Entry("h2d", 4, 300.0, 90.0, torchrun=True, needs=_LINKED),
    _Entry("soak", 4, 300.0, 90.0, torchrun=True, soaks=True, needs=_LINKED),
)


class Extent(NamedTuple):
    """How far probes go: over which nodes, with which parallel sizes, how many minutes to soak.

    ``small``: the sizes of the CPU under torchrun, for a device that is one.
    """

    nodes: LaunchNodes = LaunchNodes()
    sizes: tuple[tuple[str, int], ...] = ()
    minutes: float = 1.0
    small: bool = False


_HERE = Extent()
# What came before a probe in a process that was forked.
FORKED = "a fork behind the import of torch"


def plan(
    level: int,
    *,
    device: str,
    nproc: int,
    python: str,
    env: Mapping[str, str] | None = None,
    extent: Extent = _HERE,
) -> tuple[ProbeRequest, ...]:
    """The probes up to a level, in their order.

    ``device`` is npu, cuda or cpu, and ``nproc`` the ranks of this node.
    """
    shared = ProbeRequest(probe="", device=device, python=python, script="", env=env)
    return tuple(
        _request(probe, shared, nproc, extent) for probe in _PROBES if probe.level <= level
    )


def _request(entry: _Entry, shared: ProbeRequest, nproc: int, extent: Extent) -> ProbeRequest:
    minutes = extent.minutes if entry.soaks else 0.0
    seconds = entry.seconds_cpu if shared.device == "cpu" else entry.seconds
    request = msgspec.structs.replace(
        shared,
        probe=entry.probe,
        script=str(folder("probes") / f"{entry.probe.replace('-', '_')}.py"),
        level=entry.level,
        minutes=minutes,
        small=extent.small and entry.torchrun,
        sizes=extent.sizes if entry.torchrun or entry.sized else (),
        needs=entry.needs,
        deadline=seconds * patience().factor + 60 * minutes,
    )
    if entry.agents:
        return msgspec.structs.replace(
            request, agents=nproc, world_size=extent.nodes.count, nodes=extent.nodes
        )
    together = str(folder("probes") / "_together.py")
    if not entry.torchrun:
        return msgspec.structs.replace(
            request, forked=entry.forked, together=together if entry.forked else ""
        )
    return msgspec.structs.replace(
        request,
        torchrun=True,
        together=together,
        world_size=nproc * extent.nodes.count,
        nodes=extent.nodes,
    )


def run_all(
    requests: Iterable[ProbeRequest], *, total: float | None = None, watch: ProbeWatch | None = None
) -> tuple[ProbeRun, ...]:
    """Run probes within ``total`` seconds; what needs a failed one is not started.

    Probes that are safe together share a launch. Where one fails in processes that others have
    used before, or that were forked, it is run again in its own, and what it does there counts.
    Where it does well there, nothing more is forked.
    """
    watch = watch or Unwatched()
    end = math.inf if total is None else time.monotonic() + total
    order = tuple(requests)
    pending = list(order)
    runs: dict[str, ProbeRun] = {}
    blocks: dict[str, str] = {}
    suspects: dict[str, str] = {}
    while pending:
        first = pending[0]
        blocked = [blocks[need] for need in first.needs if blocks.get(need)]
        if blocked:
            done = [not_started(first, blocked[0])]
        elif end - time.monotonic() < LEAST_SECONDS:
            done = [not_started(first, f"the total time-out of {total:g} s was used up before")]
        else:
            batch = _together(pending, blocks, suspects)
            done = []
            forked = first.forked and len(batch) > 1
            for position, run in enumerate(launch_together(batch, watch=watch, end=end)):
                if (position or forked) and not run.sound:
                    before = [request.probe for request in batch[:position]]
                    suspects[run.probe] = _failure(run, [FORKED] if forked else before)
                else:
                    done.append(run)
        for run in done:
            story = suspects.get(run.probe, "") if run.sound else ""
            if story.endswith(FORKED):
                pending = [request.unforked for request in pending]
            runs[run.probe] = msgspec.structs.replace(run, failed_after=story)
            blocks[run.probe] = run.blocks
        pending = [request for request in pending if request.probe not in runs]
    return tuple(runs[request.probe] for request in order)


def _together(
    pending: Sequence[ProbeRequest], blocks: Mapping[str, str], suspects: Mapping[str, str]
) -> tuple[ProbeRequest, ...]:
    """The first probe, and those behind it that may share its processes and can begin."""
    first, *rest = pending
    requests = [first]
    if first.probe in suspects:
        return (first,)
    waiting = {request.probe for request in rest}
    for request in rest:
        ready = all(need not in waiting and not blocks.get(need) for need in request.needs)
        if ready and request.probe not in suspects and request.shares(first):
            requests.append(request)
            waiting.discard(request.probe)
    return tuple(requests)


def _failure(run: ProbeRun, before: Sequence[str]) -> str:
    """How a probe ended in processes that others had used before."""
    errors = [rank.error for rank in run.ranks if rank.error]
    wrong = [rank.wrong[0].what for rank in run.ranks if rank.wrong]
    codes = [f"exit code {rank.exit_code}" for rank in run.ranks if rank.exit_code]
    stages = [f"no end in stage {rank.stage}" for rank in run.ranks if rank.ok is None]
    how = next(iter([*errors, *wrong, *codes, *stages]), "it hung at its end")
    return f"{how}, after {', '.join(before)}"
