"""Which probes run at which level, in which order, and in how much time. Never imports torch."""

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from ascend_doctor.machine.patience import patience
from ascend_doctor.matrix.catalog import folder
from ascend_doctor.probe_results import ProbeRun
from ascend_doctor.probing.launching import LEAST_SECONDS, launch_together
from ascend_doctor.probing.manifest import Manifest, manifests
from ascend_doctor.probing.request import LaunchNodes, ProbeRequest, ProbeWatch, not_started
from ascend_doctor.probing.warm import warmed


class Extent(NamedTuple):
    """How far probes go; ``small``: by the sizes of the CPU, under torchrun."""

    nodes: LaunchNodes = LaunchNodes()
    sizes: tuple[tuple[str, int], ...] = ()
    minutes: float = 1.0
    small: bool = False


_HERE = Extent()
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
        _request(probe, manifest, shared, nproc, extent)
        for probe, manifest in manifests().items()
        if manifest.level <= level
    )


def _request(
    probe: str, manifest: Manifest, shared: ProbeRequest, nproc: int, extent: Extent
) -> ProbeRequest:
    minutes = extent.minutes if manifest.soaks else 0.0
    seconds = manifest.seconds_cpu if shared.device == "cpu" else manifest.seconds
    request = msgspec.structs.replace(
        shared,
        probe=probe,
        script=str(folder("probes") / f"{probe.replace('-', '_')}.py"),
        level=manifest.level,
        minutes=minutes,
        small=extent.small and manifest.torchrun,
        sizes=extent.sizes if manifest.torchrun or manifest.sized else (),
        needs=manifest.needs,
        deadline=seconds * patience().factor + 60 * minutes,
    )
    if manifest.agents:
        return msgspec.structs.replace(
            request, agents=nproc, world_size=extent.nodes.count, nodes=extent.nodes
        )
    if not manifest.torchrun:
        return msgspec.structs.replace(request, forked=manifest.forked)
    return msgspec.structs.replace(
        request,
        torchrun=True,
        together=str(folder("probes") / "_together.py"),
        forked=extent.small,
        world_size=nproc * extent.nodes.count,
        nodes=extent.nodes,
    )


def run_all(
    requests: Iterable[ProbeRequest], *, total: float | None = None, watch: ProbeWatch | None = None
) -> tuple[ProbeRun, ...]:
    """Run probes within ``total`` seconds; what needs a failed one is not started.

    Probes that are safe together share a launch. One that fails in used or forked processes
    runs again in its own, and that counts. If it passes there, nothing more is forked. What
    timed out is tried once more with more time, alone, if time remains.
    """
    order = tuple(requests)
    with warmed(order):
        return _run_all(order, total, watch or ProbeWatch())


def _run_all(
    order: Sequence[ProbeRequest], total: float | None, watch: ProbeWatch
) -> tuple[ProbeRun, ...]:
    end = math.inf if total is None else time.monotonic() + total
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
            text = f"the total time-out of {round(total or 0.0, 1):g} s was used up before"
            done = [not_started(first, text)]
        else:
            batch = _together(pending, blocks, suspects)
            done = []
            for position, run in enumerate(launch_together(batch, watch=watch, end=end)):
                before = _shared_with(batch, position)
                again = _try_again(run, batch[position], end)
                if before and not run.sound and not (again and run.load):
                    suspects[run.probe] = _failure(run, before)
                    again = again or batch[position].unforked
                if again:
                    pending = [again if each.probe == run.probe else each for each in pending]
                elif run.sound or not before:
                    done.append(run)
        for run in done:
            story = suspects.get(run.probe, "") if run.sound else ""
            if story.endswith(FORKED):
                pending = [request.unforked for request in pending]
            runs[run.probe] = msgspec.structs.replace(run, failed_after=story)
            blocks[run.probe] = run.blocks
        pending = [request for request in pending if request.probe not in runs]
    return tuple(runs[request.probe] for request in order)


def _shared_with(batch: Sequence[ProbeRequest], position: int) -> list[str]:
    names = [request.probe for request in batch[:position]]
    return [*names, FORKED] if batch[0].forks(len(batch)) else names


def _try_again(run: ProbeRun, request: ProbeRequest, end: float) -> ProbeRequest | None:
    """The second try of a time-out, if more time than before is left.

    Other nodes would not come to a second try.
    """
    left = end - time.monotonic()
    if not run.is_late or request.first_try or request.nodes.count > 1 or left < request.deadline:
        return None
    load = f", {run.load}" if run.load else ""
    return request.again(f"no end after {run.seconds:.0f} s{load}")


def _together(
    pending: Sequence[ProbeRequest], blocks: Mapping[str, str], suspects: Mapping[str, str]
) -> tuple[ProbeRequest, ...]:
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
    errors = [rank.error for rank in run.ranks if rank.error]
    wrong = [rank.wrong[0].what for rank in run.ranks if rank.wrong]
    codes = [f"exit code {rank.exit_code}" for rank in run.ranks if rank.exit_code]
    stages = [f"no end in stage {rank.stage}" for rank in run.ranks if rank.ok is None]
    how = next(iter([*errors, *wrong, *codes, *stages]), "it hung at its end")
    return f"{how}, after {', '.join(before)}"
