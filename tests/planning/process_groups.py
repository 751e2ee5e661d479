"""The members of the groups that the real initialize_model_parallel builds.

Under torchrun with gloo, else with groups that only know their members, for some ranks in turn.
"""

import json
import os
import sys

import torch.distributed as dist
from megatron.core import parallel_state
from torch.testing._internal.distributed.fake_pg import FakeStore

GETTERS = {
    "tp": "get_tensor_model_parallel_group",
    "pp": "get_pipeline_model_parallel_group",
    "cp": "get_context_parallel_group",
    "dp": "get_data_parallel_group",
    "tp-pp": "get_model_parallel_group",
    "ep": "get_expert_model_parallel_group",
    "etp": "get_expert_tensor_parallel_group",
    "edp": "get_expert_data_parallel_group",
}


def members(layout: dict[str, int]) -> dict[str, list[int]]:
    options = {"expert_tensor_parallel_size": layout["etp"]} if layout["etp"] else {}
    parallel_state.initialize_model_parallel(
        tensor_model_parallel_size=layout["tp"],
        pipeline_model_parallel_size=layout["pp"],
        context_parallel_size=layout["cp"],
        expert_model_parallel_size=layout["ep"],
        create_gloo_process_groups=False,
        **options,
    )
    groups = {
        name: sorted(dist.get_process_group_ranks(getattr(parallel_state, getter)()))
        for name, getter in GETTERS.items()
    }
    parallel_state.destroy_model_parallel()
    return groups


def fake_groups(layout: dict[str, int]) -> dict[int, dict[str, list[int]]]:
    groups_by_rank = {}
    for rank in {0, layout["npus"] // 2, layout["npus"] - 1}:
        dist.init_process_group("fake", rank=rank, world_size=layout["npus"], store=FakeStore())
        groups_by_rank[rank] = members(layout)
        dist.destroy_process_group()
    return groups_by_rank


def real(layouts: list[dict[str, int]]) -> list[dict[int, dict[str, list[int]]]] | None:
    """Gathered on rank 0, over gloo."""
    dist.init_process_group("gloo")
    answers = []
    for layout in layouts:
        mine = members(layout)
        theirs: list[dict[str, list[int]]] = [{} for _ in range(dist.get_world_size())]
        dist.all_gather_object(theirs, mine)
        answers.append(dict(enumerate(theirs)))
    first = dist.get_rank() == 0
    dist.barrier()
    dist.destroy_process_group()
    return answers if first else None


if __name__ == "__main__":
    if "RANK" in os.environ:
        layouts = json.loads(os.environ["LAYOUTS"])
        answer = real(layouts)
    else:
        answer = [fake_groups(request) for request in json.load(sys.stdin)]
    if answer is not None:
        sys.stdout.write(json.dumps(answer) + "\n")
