"""Checks who is in Megatron's parallel groups of worlds that are larger than this machine.

Run it alone: ``python probes/large_groups.py --device cpu --tp 8 --pp 4``. One process takes the
place of the first, a middle and the last rank, over torch's ``fake`` backend, which knows members
and moves nothing; no device is used. The worlds have 16, 64 and 256 ranks, or, for a layout that is
asked for, its own number of ranks and four times as many.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import _megatron
from _layouts import ProbeLayout, groups, layout_of
from _probe import Probe, main
from parallel_groups import find_groups, initialise

MANIFEST = {
    "order": 320,
    "level": 3,
    "seconds": 300,
    "seconds_cpu": 120,
    # Without an import of MindSpeed nobody comes to megatron.core.
    "needs": ["device", "mindspeed-patches"],
    "sized": True,
    "forked": True,
    "does": (
        "the members of Megatron's groups in worlds of 16, 64 and 256 ranks, or of the layout that "
        "is asked for, over torch's `fake` backend"
    ),
    "on_cpu": "with megatron-core",
}

# What people train large models with.
LAYOUTS = (
    (16, ProbeLayout(tp=2, ep=8)),
    (16, ProbeLayout(tp=2, ep=8, etp=1)),
    (64, ProbeLayout(tp=8, pp=4)),
    (64, ProbeLayout(tp=4, pp=2, ep=8, etp=1)),
    (256, ProbeLayout(tp=8, pp=8, cp=2, ep=4, etp=1)),
)


def body(probe: Probe) -> None:
    """The members of Megatron's parallel groups in large worlds."""
    _megatron.begin(probe)
    import torch.distributed as dist
    from megatron.core import parallel_state

    try:
        from torch.testing._internal.distributed.fake_pg import FakeStore
    except ImportError:
        probe.skip("this torch has no fake backend")
    done = []
    for size, layout in layouts_to_try(probe.asked):
        with probe.stage(f"{layout.name} on {size}"), _megatron.forgetting(parallel_state):
            for rank in sorted({0, size // 2 + 1, size - 1}):
                dist.init_process_group("fake", rank=rank, world_size=size, store=FakeStore())
                initialise(parallel_state, layout, probe.device, create_gloo_process_groups=False)
                compare(probe, dist, parallel_state, layout, size, rank)
                parallel_state.destroy_model_parallel()
                dist.destroy_process_group()
        done.append(f"{layout.name} on {size}")
        probe.measure("layouts", done)


def layouts_to_try(sizes: dict[str, int]) -> Iterable[tuple[int, ProbeLayout]]:
    """Numbers of ranks, and layouts."""
    if not sizes:
        return LAYOUTS
    layout = ProbeLayout(**sizes)
    dense, expert = layout.tp * layout.pp * layout.cp, layout.expert_tensor * layout.ep * layout.pp
    unit = math.lcm(dense, expert)
    return [(size, layout_of(sizes, size)) for size in (unit, 4 * unit)]


def compare(
    probe: Probe, dist: Any, parallel_state: Any, layout: ProbeLayout, size: int, rank: int
) -> None:
    lists = groups(layout, size)
    for name, group in find_groups(parallel_state).items():
        (mine,) = [ranks for ranks in lists[name] if rank in ranks]
        got = sorted(dist.get_process_group_ranks(group))
        if probe.tampers(probe.stage_name):
            got = got[1:]
        probe.expect(f"members of the {name} group of rank {rank}, {layout.name}", got, mine)


if __name__ == "__main__":
    main(body, name="large-groups")
