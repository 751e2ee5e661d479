"""How many parameters a rank holds, counted as megatron.core builds them.

What tensor parallelism does not split (norms, the router, the down projections of latent
attention) counts whole on every rank
(NVIDIA/Megatron-LM@core_v0.15.3:megatron/core/transformer/attention.py, mlp.py,
multi_latent_attention.py, moe/; of gated delta nets @core_v0.16.1:megatron/core/ssm).
"""

from __future__ import annotations

import math

import msgspec

from ascend_doctor.matrix.models import Model
from ascend_doctor.planning.layout import Layout

# --make-vocab-size-divisible-by (megatron/training/arguments.py), times the tensor parallel size.
_VOCABULARY_MULTIPLE = 128


class RankParameters(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of one rank. ``dense`` are alike over DP·CP, ``expert`` over expert DP."""

    dense: float = 0.0
    expert: float = 0.0

    def __add__(self, other: RankParameters) -> RankParameters:
        return RankParameters(dense=self.dense + other.dense, expert=self.expert + other.expert)

    @property
    def total(self) -> float:
        return self.dense + self.expert


def stages(model: Model, layout: Layout) -> tuple[range, ...]:
    """The layers of every pipeline stage; the last stage has fewer if they do not divide."""
    most = math.ceil(model.layers / layout.pp)
    return tuple(
        range(min(stage * most, model.layers), min((stage + 1) * most, model.layers))
        for stage in range(layout.pp)
    )


def vocabulary(model: Model, layout: Layout) -> int:
    """Rows of the embedding on one rank, padded as by Megatron."""
    multiple = _VOCABULARY_MULTIPLE * layout.tp
    return math.ceil(model.vocabulary / multiple) * _VOCABULARY_MULTIPLE


def rank_parameters(model: Model, layout: Layout, stage: int) -> RankParameters:
    total = RankParameters()
    for layer in stages(model, layout)[stage]:
        total += _layer(model, layout, layer)
    rows = vocabulary(model, layout) * model.hidden
    last = stage == layout.pp - 1
    # A tied output shares its rows with the embedding only if one rank holds both.
    ends = (stage == 0) + (last and not (model.tied and layout.pp == 1))
    return total + RankParameters(dense=ends * rows + last * model.hidden)


def largest_shard(model: Model, layout: Layout, stage: int) -> float:
    """The most elements that a rank's optimizer has of one parameter.

    That is an embedding, or the gates and ups of a layer, or of all experts of a rank together;
    the distributed optimizer cuts the row of all parameters into equal parts.
    """
    whole = rank_parameters(model, layout, stage)
    ends = stage in {0, layout.pp - 1}
    dense = [vocabulary(model, layout) * model.hidden if ends else 0.0]
    expert = [0.0]
    for layer in stages(model, layout)[stage]:
        if model.has_experts(layer):
            wide = model.experts / layout.ep * model.expert_ffn / layout.expert_tensor
            expert.append(2 * wide * model.hidden)
        else:
            dense.append(2 * model.hidden * model.ffn / layout.tp)
    return max(
        min(max(dense), whole.dense / (layout.dp * layout.cp)),
        min(max(expert), whole.expert / layout.edp),
    )


def _layer(model: Model, layout: Layout, layer: int) -> RankParameters:
    norms = 2 * model.hidden
    mixing = _delta(model, layout) if model.is_delta(layer) else _attention(model, layout)
    if not model.has_experts(layer):
        return RankParameters(dense=norms + mixing + 3 * model.hidden * model.ffn / layout.tp)
    shared = 3 * model.hidden * model.shared_ffn / layout.tp
    router = model.experts * model.hidden + model.shared_gate * model.hidden
    experts = model.experts / layout.ep * 3 * model.hidden * model.expert_ffn / layout.expert_tensor
    return RankParameters(dense=norms + mixing + shared + router, expert=experts)


def _attention(model: Model, layout: Layout) -> float:
    if model.latent is not None:
        return _latent(model, layout)
    wide = model.heads * (2 if model.gated_attention else 1) + 2 * model.kv_heads
    split = (wide + model.heads) * model.head_dim * model.hidden / layout.tp
    return split + (2 * model.head_dim if model.qk_norm else 0)


def _latent(model: Model, layout: Layout) -> float:
    latent = model.latent
    assert latent is not None  # noqa: S101 - for the type checker
    query = model.heads * (latent.nope_dim + latent.rope_dim)
    whole = model.hidden * (latent.kv_rank + latent.rope_dim) + latent.kv_rank
    split = latent.kv_rank * model.heads * (latent.nope_dim + latent.value_dim)
    split += model.heads * latent.value_dim * model.hidden
    if latent.q_rank:
        whole += model.hidden * latent.q_rank + latent.q_rank
        split += latent.q_rank * query
    else:
        split += model.hidden * query
    return whole + split / layout.tp


def _delta(model: Model, layout: Layout) -> float:
    delta = model.delta
    assert delta is not None  # noqa: S101 - for the type checker
    keys, values = delta.key_heads * delta.key_dim, delta.value_heads * delta.value_dim
    into = model.hidden * (2 * keys + 2 * values + 2 * delta.value_heads)
    conv = (2 * keys + values) * delta.conv_kernel
    split = into + conv + 2 * delta.value_heads + values * model.hidden
    return split / (1 if delta.whole else layout.tp) + delta.value_dim


def adapters(model: Model, layout: Layout, stage: int, rank: int) -> RankParameters:
    """Parameters of LoRA adapters of ``rank`` on all linear layers of a rank's stage.

    Of a layer split over its outputs the adapter's first half is whole on every rank, of one
    split over its inputs the second; the router and the embeddings have none.
    """
    total = RankParameters()
    for layer in stages(model, layout)[stage]:
        total += _adapter_parameters(model, layout, layer, rank)
    return total


def _adapter_parameters(model: Model, layout: Layout, layer: int, rank: int) -> RankParameters:
    hidden, tp = model.hidden, layout.tp
    parts = tp
    if model.is_delta(layer) and model.delta is not None:
        delta = model.delta
        parts = 1 if delta.whole else tp
        values = delta.value_heads * delta.value_dim
        wide = 2 * delta.key_heads * delta.key_dim + 2 * values + 2 * delta.value_heads
    elif model.latent is not None:
        values = model.heads * model.latent.value_dim
        wide = model.heads * (model.latent.nope_dim + model.latent.rope_dim)
        wide += model.heads * (model.latent.nope_dim + model.latent.value_dim)
        wide += model.latent.kv_rank + model.latent.q_rank
    else:
        values = model.heads * model.head_dim
        wide = values * (2 if model.gated_attention else 1) + 2 * model.kv_heads * model.head_dim
    mixing = rank * (hidden + wide / parts + values / parts + hidden)
    ffn = model.ffn if not model.has_experts(layer) else model.shared_ffn
    network = rank * (2 * hidden + 3 * ffn / tp) if ffn else 0
    if not model.has_experts(layer):
        return RankParameters(dense=mixing + network)
    etp = layout.expert_tensor
    per_expert = rank * (2 * hidden + 3 * model.expert_ffn / etp)
    return RankParameters(dense=mixing + network, expert=model.experts / layout.ep * per_expert)
