"""Builds Megatron's parallel groups, checks who is in each, and adds up by value in each.

The groups are made by the initialize_model_parallel of the megatron.core that this interpreter
imports, for several layouts that fit the number of ranks, or for the one of ``--tp``, ``--pp``,
``--cp``, ``--ep`` and ``--etp``. The members of every group are compared with lists that are
computed without Megatron, and each group adds up rank + 1, which also makes its links. Sizes alone
would not do: with the expert tensor parallel size omitted, Megatron takes TP for it, and every
expert group has other members.
"""

from __future__ import annotations

import time
from typing import Any

import _megatron
import _probe
from _layouts import ProbeLayout, groups, layout_of, layouts
from _probe import GROUP_SECONDS, Probe

MANIFEST = {
    "order": 240,
    "level": 3,
    "seconds": 300,
    "seconds_cpu": 120,
    "needs": ["allreduce", "mindspeed-patches"],
    "torchrun": True,
    "does": (
        "the real `initialize_model_parallel` for up to six layouts, or the one of `--tp --pp --cp "
        "--ep --etp`: members of ten kinds of groups, a sum in each, the memory of further groups, "
        "and a float64 sum"
    ),
    "on_cpu": "with megatron-core",
}

FURTHER_GROUPS = 4
# Megatron's functions that give the group of a rank, by what the lists call it.
GETTERS = {
    "tp": "get_tensor_model_parallel_group",
    "cp": "get_context_parallel_group",
    "dp": "get_data_parallel_group",
    "dp_cp": "get_data_parallel_group",
    "pp": "get_pipeline_model_parallel_group",
    "mp": "get_model_parallel_group",
    "ep": "get_expert_model_parallel_group",
    "etp": "get_expert_tensor_parallel_group",
    "tp_ep": "get_expert_tensor_and_model_parallel_group",
    "edp": "get_expert_data_parallel_group",
}


def body(probe: Probe) -> None:
    """The members of Megatron's parallel groups, and a sum in each."""
    torch = _megatron.begin(probe)
    from megatron.core import parallel_state

    dist = probe.join()
    with probe.stage("float64"):
        double(probe, torch, dist)
    with probe.stage("memory of groups"):
        probe.measure("group_bytes", memory_of_groups(probe, torch, dist))
    table: dict[str, Any] = {}
    chosen = [layout_of(probe.asked, probe.world_size)] if probe.asked else None
    for layout in chosen or layouts(probe.world_size):
        with _megatron.forgetting(parallel_state):
            table[layout.name] = examine(probe, torch, dist, layout)
        probe.measure("layouts", table)


def examine(probe: Probe, torch: Any, dist: Any, layout: ProbeLayout) -> dict[str, Any]:
    """Make the groups of a layout, look at their members and their sums, and take them down."""
    from megatron.core import parallel_state

    before = memory_free(probe, torch)
    start = time.monotonic()
    with probe.stage(f"groups of {layout.name}"):
        initialise(parallel_state, layout, probe.device)
    made = find_groups(parallel_state)
    with probe.stage(f"members of {layout.name}"):
        members(probe, dist, layout, made)
    with probe.stage(f"sums in {layout.name}"):
        several = sums(probe, torch, dist, layout, made)
    outcome: dict[str, Any] = {"seconds": time.monotonic() - start, "groups": several}
    if before is not None:
        outcome["bytes"] = before - memory_free(probe, torch)
    with probe.stage(f"teardown of {layout.name}"):
        parallel_state.destroy_model_parallel()
    return outcome


def find_groups(parallel_state: Any) -> dict[str, Any]:
    """The group of this rank of every kind, as Megatron has made them."""
    options = {"dp_cp": {"with_context_parallel": True}}
    return {
        name: getattr(parallel_state, getter)(**options.get(name, {}))
        for name, getter in GETTERS.items()
    }


def memory_of_groups(probe: Probe, torch: Any, dist: Any) -> list[int]:
    """Device memory that each of several further groups of all ranks takes; none on the CPU.

    A group gets its buffers (HCCL_BUFFSIZE) with its first collective.
    """
    if probe.device == "cpu" or probe.world_size == 1:
        return []
    taken, made = [], []
    for _ in range(FURTHER_GROUPS):
        before = memory_free(probe, torch)
        made.append(dist.new_group(list(range(probe.world_size))))
        dist.all_reduce(torch.ones(1, device=probe.torch_device()), group=made[-1])
        taken.append(before - memory_free(probe, torch))
    for group in made:
        dist.destroy_process_group(group)
    return taken


def double(probe: Probe, torch: Any, dist: Any) -> None:
    """A float64 sum over gloo: the adaptor of MindSpeed loses it, whatever the group is."""
    group = dist.new_group(backend="gloo")
    tensor = torch.tensor([probe.rank + 1.0], dtype=torch.float64, device="cpu")
    dist.all_reduce(tensor, group=group)
    probe.measure("float64_sum", tensor.item())


def initialise(parallel_state: Any, layout: ProbeLayout, device: str, **options: Any) -> None:
    """Let Megatron make its groups. What the layout leaves open is not passed."""
    keywords: dict[str, Any] = (
        {} if layout.etp is None else {"expert_tensor_parallel_size": layout.etp}
    )
    parallel_state.initialize_model_parallel(
        tensor_model_parallel_size=layout.tp,
        pipeline_model_parallel_size=layout.pp,
        context_parallel_size=layout.cp,
        expert_model_parallel_size=layout.ep,
        distributed_timeout_minutes=int(-(-GROUP_SECONDS[device] // 60)),
        **keywords,
        **options,
    )


def members(probe: Probe, dist: Any, layout: ProbeLayout, made: dict[str, Any]) -> None:
    lists = groups(layout, probe.world_size)
    for name, group in made.items():
        (mine,) = [ranks for ranks in lists[name] if probe.rank in ranks]
        got = sorted(dist.get_process_group_ranks(group))
        probe.expect(f"members of the {name} group of rank {probe.rank}, {layout.name}", got, mine)


def sums(probe: Probe, torch: Any, dist: Any, layout: ProbeLayout, made: dict[str, Any]) -> int:
    """Each group of several ranks adds up rank + 1; gives how many there are."""
    lists = groups(layout, probe.world_size)
    several = 0
    for name, group in made.items():
        (mine,) = [ranks for ranks in lists[name] if probe.rank in ranks]
        if group.size() == 1:
            continue
        several += 1
        addend = probe.rank + (2 if probe.tampers(probe.stage_name) else 1)
        tensor = torch.full((1,), float(addend), device=probe.torch_device())
        dist.all_reduce(tensor, group=group)
        total = float(sum(rank + 1 for rank in mine))
        probe.expect(f"sum of rank + 1 over the {name} group, {layout.name}", tensor.item(), total)
    return several


def memory_free(probe: Probe, torch: Any) -> Any:
    if probe.device == "cpu":
        return None
    probe.synchronise(torch)
    return getattr(torch, probe.device).mem_get_info()[0]


if __name__ == "__main__":
    _probe.main(body, name="parallel-groups")
