"""How many parameters a rank holds, counted as megatron.core builds them.

What tensor parallelism does not split (norms, the router, the down projections of latent
attention) counts whole on every rank
(NVIDIA/Megatron-LM@core_v0.15.3:megatron/core/transformer/attention.py, mlp.py,
multi_latent_attention.py, moe/; of gated delta nets @core_v0.16.1:megatron/core/ssm).
"""

import math
import operator
from collections.abc import Callable
from itertools import starmap

import msgspec

from ascend_doctor.matrix.models import Model
from ascend_doctor.planning.layout import Layout

# --make-vocab-size-divisible-by (megatron/training/arguments.py), times the tensor parallel size.
_VOCABULARY_MULTIPLE = 128
# Of linear layers the inputs and the outputs that a rank has.
_Sides = tuple[tuple[float, float], ...]


class RankParameters(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of one rank. ``dense`` are alike over DP·CP, ``expert`` over expert DP."""

    dense: float = 0.0
    expert: float = 0.0

    def __add__(self, other: "RankParameters") -> "RankParameters":
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
        total += _count(model, layout, layer, operator.mul)
        total += RankParameters(dense=_beside(model, layout, layer))
    rows = vocabulary(model, layout) * model.hidden
    last = stage == layout.pp - 1
    # A tied output shares its rows with the embedding only if one rank holds both.
    ends = (stage == 0) + (last and not (model.tied and layout.pp == 1))
    return total + RankParameters(dense=ends * rows + last * model.hidden)


def adapters(model: Model, layout: Layout, stage: int, rank: int) -> RankParameters:
    """Parameters of LoRA adapters of ``rank`` on all linear layers of a rank's stage.

    Of a layer split over its outputs the adapter's first half is whole on every rank, of one
    split over its inputs the second; the router and the embeddings have none.
    """
    total = RankParameters()
    for layer in stages(model, layout)[stage]:
        total += _count(model, layout, layer, lambda rows, columns: rank * (rows + columns))
    return total


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


def _count(
    model: Model, layout: Layout, layer: int, size: Callable[[float, float], float]
) -> RankParameters:
    """The sum of a layer's linear parts; ``size`` is given what a rank has of both sides."""
    experts = model.has_experts(layer)
    mixing = _delta if model.is_delta(layer) else _latent if model.latent else _attention
    network = _network(model, model.shared_ffn if experts else model.ffn, layout.tp)
    dense = sum(starmap(size, (*mixing(model, layout.tp), *network)))
    if not experts:
        return RankParameters(dense=dense)
    each = sum(starmap(size, _network(model, model.expert_ffn, layout.expert_tensor)))
    return RankParameters(dense=dense, expert=model.experts / layout.ep * each)


def _network(model: Model, wide: int, parts: int) -> _Sides:
    return ((model.hidden, 2 * wide / parts), (wide / parts, model.hidden)) if wide else ()


def _attention(model: Model, tp: int) -> _Sides:
    wide = model.heads * (2 if model.gated_attention else 1) + 2 * model.kv_heads
    into = (model.hidden, wide * model.head_dim / tp)
    return into, (model.heads * model.head_dim / tp, model.hidden)


def _latent(model: Model, tp: int) -> _Sides:
    latent, hidden, heads = model.latent, model.hidden, model.heads
    assert latent is not None  # noqa: S101 - for the type checker
    q_rank, kv_rank = latent.q_rank, latent.kv_rank
    query = heads * (latent.nope_dim + latent.rope_dim) / tp
    return (
        *(((hidden, q_rank), (q_rank, query)) if q_rank else ((hidden, query),)),
        (hidden, kv_rank + latent.rope_dim),
        (kv_rank, heads * (latent.nope_dim + latent.value_dim) / tp),
        (heads * latent.value_dim / tp, hidden),
    )


def _delta(model: Model, tp: int) -> _Sides:
    delta = model.delta
    assert delta is not None  # noqa: S101 - for the type checker
    parts = 1 if delta.whole else tp
    keys, values = delta.key_heads * delta.key_dim, delta.value_heads * delta.value_dim
    into = (model.hidden, 2 * (keys + values + delta.value_heads) / parts)
    return into, (values / parts, model.hidden)


def _beside(model: Model, layout: Layout, layer: int) -> float:
    """Parameters of norms, the router and a delta net's convolution."""
    total = 2.0 * model.hidden
    if model.has_experts(layer):
        total += model.experts * model.hidden + model.shared_gate * model.hidden
    if model.is_delta(layer) and (delta := model.delta):
        keys, values = delta.key_heads * delta.key_dim, delta.value_heads * delta.value_dim
        split = (2 * keys + values) * delta.conv_kernel + 2 * delta.value_heads
        return total + split / (1 if delta.whole else layout.tp) + delta.value_dim
    if model.latent:
        return total + model.latent.kv_rank + model.latent.q_rank
    return total + (2 * model.head_dim if model.qk_norm else 0)
