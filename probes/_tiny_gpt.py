"""A tiny GPT of the real megatron.core, dense or with experts, and how its weights are drawn.

Weights depend on the names of the parts in the whole model alone: not on the layout, the device,
the release or a random generator of theirs. Import it after ``_megatron.load``.
"""

from __future__ import annotations

import math
import random
import re
from typing import Any, NamedTuple

import torch
from _layouts import Layout
from megatron.core import parallel_state
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.models.gpt.gpt_model import GPTModel
from megatron.core.transformer.transformer_block import TransformerBlockSubmodules
from megatron.core.transformer.transformer_config import TransformerConfig

VOCABULARY = 128
SEQUENCE = 32
HIDDEN = 64
SPREAD = 0.02


class Kind(NamedTuple):
    """What differs between the models.

    ``experts`` of each layer, 0 for a dense one; ``groups`` of queries share a key. ``tied``: the
    output shares the embedding's weight. ``marked``: the halves of adapters that are not sharded
    say that each rank has seen a part of the sequence. ``dispatcher`` moves tokens to experts.
    """

    layers: int = 2
    experts: int = 4
    groups: int = 2
    tied: bool = False
    marked: bool = True
    dispatcher: str = "alltoall"


def configuration(layout: Layout, kind: Kind) -> Any:
    """The same model for every layout."""
    experts: dict[str, Any] = {
        "num_moe_experts": kind.experts,
        "moe_router_topk": 2,
        "moe_ffn_hidden_size": HIDDEN,
        "moe_grouped_gemm": False,
        "moe_token_dispatcher_type": kind.dispatcher,
        "moe_aux_loss_coeff": 0.01,
        "expert_model_parallel_size": layout.ep,
        "expert_tensor_parallel_size": layout.expert_tensor,
    }
    return TransformerConfig(
        num_layers=kind.layers,
        hidden_size=HIDDEN,
        num_attention_heads=2 * kind.groups,
        num_query_groups=kind.groups,
        ffn_hidden_size=2 * HIDDEN,
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
        **(experts if kind.experts else {}),
    )


class Norm(torch.nn.RMSNorm):
    """torch's RMSNorm with Megatron's arguments; Megatron's own refuses sequence parallelism."""

    def __init__(self, hidden_size: int, eps: float = 1e-5, **_: Any) -> None:
        super().__init__(hidden_size, eps=eps)


def build(config: Any, kind: Kind) -> Any:
    """The part of the model that this rank has, on the CPU, with drawn weights."""
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
            layer_specs=[layer] * (kind.layers // config.pipeline_model_parallel_size),
            layer_norm=Norm,
        ),
        vocab_size=VOCABULARY,
        max_sequence_length=SEQUENCE,
        pre_process=parallel_state.is_pipeline_first_stage(),
        post_process=parallel_state.is_pipeline_last_stage(),
        position_embedding_type="rope",
        share_embeddings_and_output_weights=kind.tied,
        parallel_output=True,
    )
    for name, weight in model.named_parameters():
        if weight.dim() > 1:
            whole = globally(name, config)
            if kind.tied and whole == "output_layer.weight":
                # The last stage of a pipeline has a copy of the first stage's.
                whole = "embedding.word_embeddings.weight"
            weight.data.copy_(SPREAD * shard(whole, weight, config))
    return model


def globally(name: str, config: Any) -> str:
    """The name that a part of this stage and of these experts has in the whole model."""
    stage = parallel_state.get_pipeline_model_parallel_rank()
    layers = stage * config.num_layers // config.pipeline_model_parallel_size
    owner = parallel_state.get_expert_model_parallel_rank()
    experts = owner * (config.num_moe_experts or 0) // config.expert_model_parallel_size
    for kind, first in (("layers", layers), ("local_experts", experts)):
        name = re.sub(
            rf"\b({kind})\.(\d+)",
            lambda found, first=first: f"{found[1]}.{int(found[2]) + first}",
            name,
        )
    return name


def shard(name: str, weight: Any, config: Any) -> Any:
    """What this rank holds of a weight of the whole model."""
    size, rank = 1, 0
    if ".local_experts." in name:
        size = parallel_state.get_expert_tensor_parallel_world_size()
        rank = parallel_state.get_expert_tensor_parallel_rank() if size > 1 else 0
    elif getattr(weight, "tensor_model_parallel", False):
        size = parallel_state.get_tensor_model_parallel_world_size()
        rank = parallel_state.get_tensor_model_parallel_rank()
    if size == 1:
        return drawn(name, weight.shape)
    shape, along = list(weight.shape), weight.partition_dim
    shape[along] *= size
    full = drawn(name, shape)
    # Of a gated layer each rank holds its rows of the gate, then its rows of the other half.
    halves = 2 if config.gated_linear_unit and "linear_fc1" in name else 1
    return torch.cat([one.chunk(size, along)[rank] for one in full.chunk(halves, along)], along)


def drawn(name: str, shape: Any) -> Any:
    """Numbers of variance 1 that depend on the name alone, on no library and no device."""
    source = random.Random(name)  # noqa: S311 - weights are no secret
    count = math.prod(shape)
    flat = torch.tensor([source.uniform(-1.0, 1.0) for _ in range(count)])
    return flat.reshape(tuple(shape)) * 3**0.5
