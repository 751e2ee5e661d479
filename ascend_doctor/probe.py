"""Which probes run at which level, in which order, and in how much time. Never imports torch."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from ascend_doctor.data import folder
from ascend_doctor.probe_results import ProbeRun
from ascend_doctor.probing.launching import launch
from ascend_doctor.probing.request import ProbeRequest, Unwatched, Watch, not_started

LEAST_SECONDS = 1.0


class _Entry(NamedTuple):
    """A shipped probe: its first level, and its deadline on an accelerator and on the CPU.

    ``needs`` are the probes without which it would fail for their reasons.
    """

    probe: str
    level: int
    seconds: float
    seconds_cpu: float
    torchrun: bool = False
    needs: tuple[str, ...] = ("inspect-env", "device")


_LINKED = ("inspect-env", "device", "allreduce")

# In the order in which they run. The deadlines are those of the specifications: HCCL needs 140 s
# to report a failed link, and operators compile at their first call.
_PROBES = (
    _Entry("inspect-env", 1, 300.0, 300.0, needs=()),
    # It imports nothing, so it says what it sees where torch does not import, too.
    _Entry("megatron-tree", 1, 90.0, 90.0, needs=()),
    _Entry("mindspeed-patches", 1, 300.0, 90.0, needs=("inspect-env",)),
    _Entry("device", 2, 300.0, 90.0, needs=("inspect-env",)),
    _Entry("bool-index", 2, 300.0, 90.0),
    _Entry("fused-softmax", 2, 300.0, 90.0),
    _Entry("dtype", 2, 300.0, 90.0),
    _Entry("flash-attention", 2, 600.0, 90.0),
    _Entry("fused-ops", 2, 600.0, 90.0),
    _Entry("triton", 2, 300.0, 120.0),
    _Entry("single-process", 2, 300.0, 90.0),
    _Entry("device-per-rank", 3, 120.0, 60.0, torchrun=True),
    _Entry("allreduce", 3, 300.0, 90.0, torchrun=True),
    _Entry("collectives", 3, 300.0, 90.0, torchrun=True, needs=_LINKED),
    _Entry("bound-device-id", 3, 300.0, 90.0, torchrun=True, needs=_LINKED),
    _Entry("object-collectives", 3, 600.0, 120.0, torchrun=True, needs=_LINKED),
    _Entry("parallel-groups", 3, 300.0, 120.0, torchrun=True, needs=_LINKED),
    _Entry("smoke-train", 3, 600.0, 180.0, torchrun=True, needs=_LINKED),
)


def plan(
    level: int, *, device: str, nproc: int, python: str, env: Mapping[str, str] | None = None
) -> tuple[ProbeRequest, ...]:
    """The probes up to a level, in their order. ``device`` is npu, cuda or cpu."""
    return tuple(
        ProbeRequest(
            probe=one.probe,
            device=device,
            python=python,
            script=str(folder("probes") / f"{one.probe.replace('-', '_')}.py"),
            env=env,
            level=one.level,
            world_size=nproc if one.torchrun else 1,
            torchrun=one.torchrun,
            needs=one.needs,
            deadline=one.seconds_cpu if device == "cpu" else one.seconds,
        )
        for one in _PROBES
        if one.level <= level
    )


def run_all(
    requests: Iterable[ProbeRequest], *, total: float | None = None, watch: Watch | None = None
) -> tuple[ProbeRun, ...]:
    """Run probes in order within ``total`` seconds; what needs a failed one is not started."""
    watch = watch or Unwatched()
    end = None if total is None else time.monotonic() + total
    runs: list[ProbeRun] = []
    reasons: dict[str, str] = {}
    for request in requests:
        left = request.deadline if end is None else end - time.monotonic()
        blocked = [reasons[one] for one in request.needs if reasons.get(one)]
        if blocked:
            run = not_started(request, blocked[0])
        elif left < LEAST_SECONDS:
            run = not_started(request, f"the total time-out of {total:g} s was used up before")
        else:
            short = left < request.deadline
            timed = msgspec.structs.replace(
                request, deadline=min(left, request.deadline), shortened=short
            )
            run = launch(timed, watch=watch)
        reasons[request.probe] = run.blocks
        runs.append(run)
    return tuple(runs)
