"""A tiny GPT of the real megatron.core with experts and LoRA adapters, and its training step.

The adapters (r = 8, alpha = 32) are made of Megatron's own parallel layers, as trainers do it: of a
column-parallel layer the second half is sharded, of a row-parallel one the first. Import it after
``_megatron.load``.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from _layouts import Layout
from megatron.core import parallel_state
from megatron.core.distributed import (
    DistributedDataParallel,
    DistributedDataParallelConfig,
    finalize_model_grads,
)
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.models.gpt.gpt_model import GPTModel
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.pipeline_parallel import get_forward_backward_func
from megatron.core.tensor_parallel import ColumnParallelLinear, RowParallelLinear
from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
from megatron.core.transformer.transformer_block import TransformerBlockSubmodules
from megatron.core.transformer.transformer_config import TransformerConfig

SEED = 1234
EXPERTS = 4
VOCABULARY = 128
SEQUENCE = 32
BATCH = 2
MICRO_BATCHES = 4
HIDDEN = 64
LAYERS = 2
SPREAD = 0.02
RANK = 8
ALPHA = 32
LEARNING_RATE = 5e-3


# Ranks of which groups must hold equal adapters: (whole over tensor parallel ranks, all over data
# parallel ranks), for dense layers and for experts.
GROUPS = {
    False: ("get_tensor_model_parallel_group", "get_data_parallel_group"),
    True: ("get_expert_tensor_parallel_group", "get_expert_data_parallel_group"),
}


class Step(NamedTuple):
    """One training step; ``loss`` is None on all but the last stage of a pipeline."""

    loss: float | None
    grad_norm: float


def configuration(layout: Layout) -> Any:
    """The same model for every layout."""
    return TransformerConfig(
        num_layers=LAYERS,
        hidden_size=HIDDEN,
        num_attention_heads=4,
        num_query_groups=2,
        ffn_hidden_size=2 * HIDDEN,
        num_moe_experts=EXPERTS,
        moe_router_topk=2,
        moe_ffn_hidden_size=HIDDEN,
        moe_grouped_gemm=False,
        moe_token_dispatcher_type="alltoall",  # noqa: S106 - tokens are words
        moe_aux_loss_coeff=0.01,
        gated_linear_unit=True,
        activation_func=torch.nn.functional.silu,
        add_bias_linear=False,
        normalization="RMSNorm",
        hidden_dropout=0.0,
        attention_dropout=0.0,
        masked_softmax_fusion=False,
        gradient_accumulation_fusion=False,
        bias_dropout_fusion=False,
        bias_activation_fusion=False,
        apply_rope_fusion=False,
        attention_softmax_in_fp32=True,
        sequence_parallel=layout.tp > 1,
        use_cpu_initialization=True,
        params_dtype=torch.float32,
        pipeline_dtype=torch.float32,
        tensor_model_parallel_size=layout.tp,
        pipeline_model_parallel_size=layout.pp,
        expert_model_parallel_size=layout.ep,
        expert_tensor_parallel_size=layout.expert_tensor,
    )


class Norm(torch.nn.RMSNorm):
    """torch's RMSNorm with Megatron's arguments; Megatron's own refuses sequence parallelism."""

    def __init__(self, hidden_size: int, eps: float = 1e-5, **_: Any) -> None:
        super().__init__(hidden_size, eps=eps)


class Lora(torch.nn.Module):
    """A frozen parallel layer and its adapter. Both give (output, bias)."""

    def __init__(self, name: str, base: Any, config: Any) -> None:
        super().__init__()
        self.base = base
        expert = bool(base.is_expert)

        def start(weight: Any) -> Any:
            return weight.data.copy_(drawn(f"{name}.first", weight.shape) / weight.shape[1] ** 0.5)

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
        self.whole = whole
        self._mark(whole, config, expert=expert)

    def _mark(self, whole: Any, config: Any, *, expert: bool) -> None:
        """Say who reduces the gradients; ``whole`` is the half that is not sharded."""
        if expert:
            # Ranks of one tensor parallel group have different experts, so none is a duplicate.
            whole.tensor_model_parallel = config.expert_tensor_parallel_size == 1
            for one in self.trained():
                one.allreduce = False
        else:
            # Each rank has seen a part of the sequence.
            whole.sequence_parallel = config.sequence_parallel

    def trained(self) -> tuple[Any, ...]:
        return (*self.first.parameters(), *self.second.parameters())

    def forward(self, hidden: Any, *arguments: Any, **options: Any) -> Any:
        output, bias = self.base(hidden, *arguments, **options)
        added = self.first(hidden)
        added = self.second(added[0] if isinstance(added, tuple) else added)
        return output + ALPHA / RANK * (added[0] if isinstance(added, tuple) else added), bias


class Training:
    """Model, optimizer and data of this rank under one layout."""

    def __init__(self, layout: Layout, place: str) -> None:
        self.config = configuration(layout)
        self.place = place
        self.batches = batches()
        model_parallel_cuda_manual_seed(SEED)
        torch.manual_seed(SEED)
        self.model = DistributedDataParallel(
            self.config,
            DistributedDataParallelConfig(
                grad_reduce_in_fp32=True, overlap_grad_reduce=False, use_distributed_optimizer=True
            ),
            adapted(build(self.config), self.config).to(place),
        )
        self.config.finalize_model_grads_func = finalize_model_grads
        self.optimizer = get_megatron_optimizer(
            OptimizerConfig(
                optimizer="adam",
                lr=LEARNING_RATE,
                weight_decay=0.0,
                clip_grad=1.0,
                params_dtype=torch.float32,
                use_distributed_optimizer=True,
            ),
            [self.model],
        )

    def step(self) -> Step:
        self.model.zero_grad_buffer()
        self.optimizer.zero_grad()
        reduced = get_forward_backward_func()(
            forward_step_func=self._forward,
            data_iterator=iter(self.batches),
            model=[self.model],
            num_microbatches=len(self.batches),
            seq_length=SEQUENCE,
            micro_batch_size=BATCH,
            decoder_seq_length=SEQUENCE,
            forward_only=False,
        )
        _, norm, _ = self.optimizer.step()
        return Step(self._average([float(one["loss"]) for one in reduced]), float(norm))

    def _average(self, losses: list[float]) -> float | None:
        """The mean of all data parallel ranks, over gloo, as trainers gather what they print."""
        if not losses:
            return None
        group = parallel_state.get_data_parallel_group_gloo()
        total = torch.tensor(sum(losses) / len(losses), device="cpu")
        torch.distributed.all_reduce(total, group=group)
        return total.item() / group.size()

    @property
    def reports(self) -> bool:
        """Whether this rank is the one that prints: of the last stage the first."""
        return bool(
            parallel_state.is_pipeline_last_stage()
            and parallel_state.get_tensor_model_parallel_rank() == 0
            and parallel_state.get_data_parallel_rank() == 0
        )

    def poison(self) -> None:
        """For tests: one weight of this rank is no number any more."""
        next(one for one in self.model.parameters() if one.requires_grad).data[0] = math.nan

    def differences(self) -> dict[str, float]:
        """By how much adapters differ that ranks must have in common, in this rank's groups."""
        adapters = [one for one in self.model.modules() if isinstance(one, Lora)]
        found = {}
        for expert, getters in GROUPS.items():
            tensor, data = (getattr(parallel_state, one)() for one in getters)
            chosen = [one for one in adapters if one.expert == expert]
            whole = [one.whole for one in chosen]
            every = [weight for one in chosen for weight in one.trained()]
            kind = "expert" if expert else "dense"
            found[f"{kind} tensor"] = spread(whole, tensor)
            found[f"{kind} data"] = spread(every, data)
        return found

    def _forward(self, texts: Iterator[Any], model: Any) -> Any:
        text = next(texts).to(self.place)
        tokens, labels = text[:, :-1].contiguous(), text[:, 1:].contiguous()
        positions = torch.arange(SEQUENCE, device=self.place).expand_as(tokens)
        mask = torch.ones(1, 1, SEQUENCE, SEQUENCE, dtype=torch.bool).triu(1).to(self.place)
        return model(tokens, positions, mask, labels=labels), mean


def batches() -> list[Any]:
    """What this rank trains on in every step: its share of the same batches.

    Where data parallel ranks cannot share them evenly, each takes all, and the mean is the same.
    """
    ranks = parallel_state.get_data_parallel_world_size()
    source = random.Random(SEED)  # noqa: S311 - data are no secret
    size = (BATCH, SEQUENCE + 1)
    every = [
        torch.tensor([source.randrange(VOCABULARY) for _ in range(math.prod(size))]).reshape(size)
        for _ in range(MICRO_BATCHES)
    ]
    if MICRO_BATCHES % ranks:
        return every
    share = MICRO_BATCHES // ranks
    first = parallel_state.get_data_parallel_rank() * share
    return every[first : first + share]


def spread(weights: list[Any], group: Any) -> float:
    """The largest difference of an element between the ranks of a group."""
    if not weights:
        return 0.0
    least = torch.cat([one.detach().reshape(-1) for one in weights])
    most = least.clone()
    torch.distributed.all_reduce(least, op=torch.distributed.ReduceOp.MIN, group=group)
    torch.distributed.all_reduce(most, op=torch.distributed.ReduceOp.MAX, group=group)
    return float((most - least).max())


def mean(output: Any) -> Any:
    loss = output.float().mean()
    # The schedule divides the loss in place.
    return loss, {"loss": loss.detach().clone()}


def build(config: Any) -> Any:
    layer = get_gpt_layer_local_spec(
        num_experts=config.num_moe_experts,
        moe_grouped_gemm=False,
        qk_layernorm=False,
        normalization="RMSNorm",
    )
    layer.submodules.input_layernorm = layer.submodules.pre_mlp_layernorm = Norm
    model = GPTModel(
        config=config,
        transformer_layer_spec=TransformerBlockSubmodules(
            layer_specs=[layer] * (LAYERS // config.pipeline_model_parallel_size), layer_norm=Norm
        ),
        vocab_size=VOCABULARY,
        max_sequence_length=SEQUENCE,
        pre_process=parallel_state.is_pipeline_first_stage(),
        post_process=parallel_state.is_pipeline_last_stage(),
        position_embedding_type="rope",
        share_embeddings_and_output_weights=False,
        parallel_output=True,
    )
    for name, weight in model.named_parameters():
        if weight.dim() > 1:
            weight.data.copy_(SPREAD * shard(globally(name, config), weight))
    return model


def globally(name: str, config: Any) -> str:
    """The name that a part of this stage and of these experts has in the whole model."""
    stage = parallel_state.get_pipeline_model_parallel_rank()
    layers = stage * LAYERS // config.pipeline_model_parallel_size
    owner = parallel_state.get_expert_model_parallel_rank()
    experts = owner * config.num_moe_experts // config.expert_model_parallel_size
    for kind, first in (("layers", layers), ("local_experts", experts)):
        name = re.sub(
            rf"\b({kind})\.(\d+)",
            lambda found, first=first: f"{found[1]}.{int(found[2]) + first}",
            name,
        )
    return name


def shard(name: str, weight: Any) -> Any:
    """What this rank holds of a weight of the whole model."""
    whole = list(weight.shape)
    size, rank = 1, 0
    if getattr(weight, "tensor_model_parallel", False) and ".local_experts." not in name:
        size = parallel_state.get_tensor_model_parallel_world_size()
        rank = parallel_state.get_tensor_model_parallel_rank()
        whole[weight.partition_dim] *= size
    full = drawn(name, whole)
    return full.chunk(size, weight.partition_dim)[rank] if size > 1 else full


def drawn(name: str, shape: Any) -> Any:
    """Numbers of variance 1 that depend on the name alone, on no library and no device."""
    source = random.Random(name)  # noqa: S311 - weights are no secret
    count = math.prod(shape)
    flat = torch.tensor([source.uniform(-1.0, 1.0) for _ in range(count)])
    return flat.reshape(tuple(shape)) * 3**0.5


def adapted(model: Any, config: Any) -> Any:
    """Freeze everything and put an adapter on every parallel layer but the output."""
    model.requires_grad_(requires_grad=False)
    wrapped = [
        (name, module)
        for name, module in model.named_modules()
        if isinstance(module, (ColumnParallelLinear, RowParallelLinear)) and name != "output_layer"
    ]
    for name, module in wrapped:
        parent, _, leaf = name.rpartition(".")
        adapter = Lora(globally(name, config), module, config)
        setattr(model.get_submodule(parent), leaf, adapter)
    return model
