"""The tiny GPT of ``_reference`` made of the real megatron.core, dense or with experts.

Weights depend on the names of the parts in the whole model alone: not on the layout, the device,
the release or a random generator of theirs. Import it after ``_megatron.load``.
"""

from __future__ import annotations

import re
from typing import Any

import _probe
import torch
from _layouts import ProbeLayout
from megatron.core import parallel_state
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.models.gpt.gpt_model import GPTModel
from megatron.core.transformer.transformer_block import TransformerBlockSubmodules
from megatron.core.transformer.transformer_config import TransformerConfig

reference = _probe.neighbour("_reference")
fused = _probe.neighbour("_fused")
HIDDEN = reference.HIDDEN
SEQUENCE = reference.SEQUENCE


def configuration(layout: ProbeLayout, kind: Any) -> Any:
    """The same model for every layout."""
    experts: dict[str, Any] = {
        "num_moe_experts": kind.experts,
        "moe_router_topk": reference.TOP,
        "moe_ffn_hidden_size": HIDDEN,
        "moe_grouped_gemm": False,
        "moe_token_dispatcher_type": kind.dispatcher,
        "moe_aux_loss_coeff": reference.BALANCE,
        "expert_model_parallel_size": layout.ep,
        "expert_tensor_parallel_size": layout.expert_tensor,
    }
    if kind.bf16:
        experts |= {"moe_router_dtype": "fp32", **fused.GROUPED}
    dtype = torch.bfloat16 if kind.bf16 else torch.float32
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
        # Random numbers would differ by layout and device.
        hidden_dropout=0.0,
        attention_dropout=0.0,
        # Fused forms come with Transformer Engine or Apex, and round otherwise.
        masked_softmax_fusion=False,
        gradient_accumulation_fusion=False,
        bias_dropout_fusion=False,
        bias_activation_fusion=False,
        apply_rope_fusion=False,
        attention_softmax_in_fp32=True,
        sequence_parallel=layout.tp > 1,
        use_cpu_initialization=True,
        bf16=kind.bf16,
        params_dtype=dtype,
        pipeline_dtype=dtype,
        context_parallel_size=layout.cp,
        tensor_model_parallel_size=layout.tp,
        pipeline_model_parallel_size=layout.pp,
        **(experts if kind.experts else {}),
    )


class Norm(torch.nn.RMSNorm):
    """torch's RMSNorm with Megatron's arguments; Megatron's own refuses sequence parallelism."""

    def __init__(self, config: Any, hidden_size: int, **_: Any) -> None:
        super().__init__(hidden_size, eps=reference.EPSILON)
        # Each tensor parallel rank has seen a part of the sequence.
        self.weight.sequence_parallel = config.sequence_parallel


def build(config: Any, kind: Any) -> Any:
    """The part of the model that this rank has, on the CPU, with drawn weights."""
    layer = get_gpt_layer_local_spec(
        num_experts=config.num_moe_experts,
        qk_layernorm=False,
        normalization="RMSNorm",
        **(fused.GROUPED if kind.bf16 else {"moe_grouped_gemm": False}),
    )
    if kind.bf16:
        fused.install()
        attention = layer.submodules.self_attention.submodules
        attention.core_attention = fused.FlashAttention
    layer.submodules.input_layernorm = layer.submodules.pre_mlp_layernorm = Norm
    model = GPTModel(
        config=config,
        transformer_layer_spec=TransformerBlockSubmodules(
            layer_specs=[layer] * (kind.layers // config.pipeline_model_parallel_size),
            layer_norm=Norm,
        ),
        vocab_size=reference.VOCABULARY,
        max_sequence_length=SEQUENCE,
        pre_process=parallel_state.is_pipeline_first_stage(),
        post_process=parallel_state.is_pipeline_last_stage(),
        position_embedding_type="rope",
        share_embeddings_and_output_weights=kind.tied,
        parallel_output=True,
    )
    whole = reference.ReferenceModel(kind._replace(adapters=False)).weights
    for name, weight in model.named_parameters():
        weight.data.copy_(take_share(whole, name, weight, config, kind))
    return model


def take_share(whole: dict[str, Any], name: str, weight: Any, config: Any, kind: Any) -> Any:
    """What this rank holds of a weight, or of the same of its gradient or moments."""
    grouped = re.search(r"\.experts\.weight([12])$", name)
    if not grouped:
        return shard(whole[in_reference(name, config, kind)], name, weight)
    # Of all experts of this rank one behind the other, as the factor on the right.
    path = globally(name, config)[: -len(grouped[0])]
    count = config.num_moe_experts // config.expert_model_parallel_size
    first = count * parallel_state.get_expert_model_parallel_rank()
    names = (
        f"{path}.experts.local_experts.{number}.linear_fc{grouped[1]}.weight"
        for number in range(first, first + count)
    )
    return torch.stack([whole[name].T for name in names]).reshape(weight.shape)


def in_reference(name: str, config: Any, kind: Any) -> str:
    """The name that a weight of this rank has in the reference."""
    name = globally(name, config).replace(".base.", ".")
    # The last stage of a pipeline has a copy of the first stage's.
    tied = kind.tied and name == "output_layer.weight"
    return "embedding.word_embeddings.weight" if tied else name


def globally(name: str, config: Any) -> str:
    """The name that a part of this stage and of these experts has in the whole model."""
    stage = parallel_state.get_pipeline_model_parallel_rank()
    layers = stage * config.num_layers // config.pipeline_model_parallel_size
    owner = parallel_state.get_expert_model_parallel_rank()
    experts = owner * (config.num_moe_experts or 0) // config.expert_model_parallel_size
    for kind, first in (("layers", layers), ("local_experts", experts)):
        name = re.sub(
            rf"\b({kind})\.(\d+)",
            lambda match, first=first: f"{match[1]}.{int(match[2]) + first}",
            name,
        )
    return name


def shard(whole: Any, name: str, weight: Any) -> Any:
    """What this rank holds of a weight of the whole model, or of its gradient."""
    size, rank = 1, 0
    if ".local_experts." in name:
        size = parallel_state.get_expert_tensor_parallel_world_size()
        rank = parallel_state.get_expert_tensor_parallel_rank() if size > 1 else 0
    elif getattr(weight, "tensor_model_parallel", False):
        size = parallel_state.get_tensor_model_parallel_world_size()
        rank = parallel_state.get_tensor_model_parallel_rank()
    if size == 1 or whole.shape == weight.shape:
        return whole
    # Of a gated layer each rank holds its rows of the gate, then its rows of the other half.
    halves = 2 if "linear_fc1" in name and weight.partition_dim == 0 else 1
    along = weight.partition_dim
    return torch.cat([half.chunk(size, along)[rank] for half in whole.chunk(halves, along)], along)
