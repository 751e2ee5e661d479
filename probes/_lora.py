"""LoRA adapters (r = 8, alpha = 32) of Megatron's own parallel layers, as trainers make them.

Of a column-parallel layer the second half is sharded, of a row-parallel one the first. Import it
after ``_tiny_gpt``.
"""

from __future__ import annotations

from typing import Any

import torch
from _tiny_gpt import globally, reference
from megatron.core import parallel_state
from megatron.core.tensor_parallel import ColumnParallelLinear, RowParallelLinear

RANK = reference.LORA_RANK
ALPHA = reference.LORA_ALPHA

# Ranks of which groups must hold equal adapters: (whole over tensor parallel ranks, all over data
# parallel ranks), for dense layers and for experts.
GROUPS = {
    False: ("get_tensor_model_parallel_group", "get_data_parallel_group"),
    True: ("get_expert_tensor_parallel_group", "get_expert_data_parallel_group"),
}


class Lora(torch.nn.Module):
    """A frozen parallel layer and its adapter. Both give (output, bias)."""

    def __init__(self, name: str, base: Any, config: Any, kind: Any) -> None:
        super().__init__()
        self.base = base
        expert = bool(base.is_expert)

        def start(weight: Any) -> Any:
            return weight.data.copy_(reference.first_half(name, weight.shape))

        parallel = {"config": config, "bias": False, "is_expert": expert}
        if isinstance(base, ColumnParallelLinear):
            self.first = torch.nn.Linear(base.input_size, RANK, bias=False)
            start(self.first.weight)
            self.second = ColumnParallelLinear(
                RANK,
                base.output_size,
                init_method=torch.nn.init.zeros_,
                gather_output=base.gather_output,
                **parallel,
            )
            whole = self.first.weight
        else:
            self.first = RowParallelLinear(
                base.input_size,
                RANK,
                init_method=start,
                input_is_parallel=base.input_is_parallel,
                skip_bias_add=True,
                **parallel,
            )
            self.second = torch.nn.Linear(RANK, base.output_size, bias=False)
            torch.nn.init.zeros_(self.second.weight)
            whole = self.second.weight
        self.expert = expert
        self._mark(whole, config, kind)

    def _mark(self, whole: Any, config: Any, kind: Any) -> None:
        """Say who reduces the gradients; ``whole`` is the half that is not sharded."""
        # As it is made, whatever the configuration says about the ranks.
        whole.in_common = True
        if self.expert:
            # Ranks of one tensor parallel group have different experts, so none is a duplicate.
            whole.tensor_model_parallel = config.expert_tensor_parallel_size == 1
            for weight in self.trained():
                weight.allreduce = False
        else:
            # Each rank has seen a part of the sequence.
            whole.sequence_parallel = config.sequence_parallel and kind.marked

    def trained(self) -> tuple[Any, ...]:
        return (*self.first.parameters(), *self.second.parameters())

    def forward(self, hidden: Any, *arguments: Any, **options: Any) -> Any:
        output, bias = self.base(hidden, *arguments, **options)
        added = self.first(hidden)
        added = self.second(added[0] if isinstance(added, tuple) else added)
        return output + ALPHA / RANK * (added[0] if isinstance(added, tuple) else added), bias


def adapt(model: Any, config: Any, kind: Any) -> Any:
    """Freeze everything and put an adapter on every parallel layer but the output."""
    model.requires_grad_(requires_grad=False)
    wrapped = [
        (name, module)
        for name, module in model.named_modules()
        if isinstance(module, (ColumnParallelLinear, RowParallelLinear)) and name != "output_layer"
    ]
    for name, module in wrapped:
        parent, _, leaf = name.rpartition(".")
        adapter = Lora(globally(name, config), module, config, kind)
        setattr(model.get_submodule(parent), leaf, adapter)
    return model


def differences(model: Any) -> dict[str, float]:
    """By how much weights differ that ranks must have in common, in this rank's groups."""
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    spreads = {}
    for expert, getters in GROUPS.items():
        tensor, data = (getattr(parallel_state, getter)() for getter in getters)
        every = [weight for weight in weights if getattr(weight, "allreduce", True) != expert]
        whole = [weight for weight in every if in_common(weight)]
        kind = "expert" if expert else "dense"
        spreads[f"{kind} tensor"] = spread(whole, tensor)
        spreads[f"{kind} data"] = spread(every, data)
    return spreads


def in_common(weight: Any) -> bool:
    """Whether tensor parallel ranks have all of this weight.

    The mark tensor_model_parallel of an adapter says who counts its gradient, not who holds it.
    """
    sharded = getattr(weight, "tensor_model_parallel", False)
    return bool(getattr(weight, "in_common", not sharded))


def spread(weights: list[Any], group: Any) -> float:
    """The largest difference of an element between the ranks of a group."""
    if not weights:
        return 0.0
    least = torch.cat([weight.detach().float().reshape(-1) for weight in weights])
    most = least.clone()
    torch.distributed.all_reduce(least, op=torch.distributed.ReduceOp.MIN, group=group)
    torch.distributed.all_reduce(most, op=torch.distributed.ReduceOp.MAX, group=group)
    return float((most - least).max())
