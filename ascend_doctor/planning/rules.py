"""What a layout must satisfy, each rule with the place that demands it."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from ascend_doctor.judging.layout_rules import (
    MOST_EXPERTS,
    holds_experts,
    splits_groups,
    splits_layers,
    splits_sequence,
)
from ascend_doctor.matrix.models import Model
from ascend_doctor.matrix.versions import satisfies
from ascend_doctor.planning.layout import Layout
from ascend_doctor.planning.memory import TrainingRun
from ascend_doctor.planning.weights import stages

_MEGATRON = "NVIDIA/Megatron-LM@core_v0.15.3:megatron/"
_CONFIG = "core/transformer/transformer_config.py"
_GATED = "0.16.0.dev0"  # the first megatron-core with a gated delta net
_NEWER = f"NVIDIA/Megatron-LM@core_v0.16.1:megatron/{_CONFIG}"


class LayoutQuery(msgspec.Struct, frozen=True, kw_only=True):
    """``megatron`` is the version of megatron-core; empty is any of 0.12 to 0.19."""

    model: Model
    run: TrainingRun
    megatron: str = ""


class Rule(NamedTuple):
    """What a layout must satisfy, who demands it, and whether it ``holds``."""

    text: str
    source: str
    holds: Callable[[LayoutQuery, Layout], bool | None]


def _splits_groups(asked: LayoutQuery, layout: Layout) -> bool | None:
    if asked.model.latent is not None:
        return True
    # A result that depends on an unknown version is not legal in all versions.
    return splits_groups(asked.model.kv_heads, layout.tp, asked.megatron)


def _splits_layers(asked: LayoutQuery, layout: Layout) -> bool:
    last = len(stages(asked.model, layout)[-1])
    return splits_layers(asked.model.layers, layout.pp, None, last)


def _splits_delta(asked: LayoutQuery, layout: Layout) -> bool:
    delta = asked.model.delta
    if delta is None:
        return True
    # MindSpeed core_r0.16.0 takes CP, too.
    if layout.cp > 1 and not is_from(asked, "0.18.0"):
        return False
    return delta.whole or not (delta.key_heads % layout.tp or delta.value_heads % layout.tp)


RULES = (
    Rule(
        "TP·PP·CP and ETP·EP·PP divide the number of ranks",
        f"{_MEGATRON}core/parallel_state.py",
        lambda _, layout: layout.divides,
    ),
    Rule(
        "the micro-batch times DP divides the global batch, if that is given",
        f"{_MEGATRON}core/num_microbatches_calculator.py:341",
        lambda asked, layout: asked.run.global_batch % (asked.run.micro_batch * layout.dp) == 0,
    ),
    Rule(
        "TP divides the attention heads",
        f"{_MEGATRON}{_CONFIG}:743",
        lambda asked, layout: asked.model.heads % layout.tp == 0,
    ),
    Rule(
        "TP divides the key and value heads; from 0.16 they may divide TP instead",
        f"{_MEGATRON}{_CONFIG}:758; {_NEWER}:940",
        _splits_groups,
    ),
    Rule(
        "the attention heads are a multiple of the key and value heads",
        f"{_MEGATRON}core/transformer/attention.py:1073",
        lambda asked, _: bool(asked.model.latent) or asked.model.heads % asked.model.kv_heads == 0,
    ),
    Rule(
        "EP divides the experts; a model without experts has no EP or ETP",
        f"{_MEGATRON}training/arguments.py:1039",
        lambda asked, layout: (
            asked.model.experts % layout.ep == 0
            if asked.model.experts
            else layout.ep * (layout.etp or 1) == 1
        ),
    ),
    Rule(
        "ETP divides the width of an expert",
        f"{_MEGATRON}core/tensor_parallel/layers.py",
        lambda asked, layout: asked.model.expert_ffn % layout.expert_tensor == 0,
    ),
    Rule(
        f"a rank holds at most {MOST_EXPERTS} experts on NPUs",
        "modelscope/mcore-bridge 1.6.5 wheel: mcore_bridge/config/model_config.py",
        lambda asked, layout: holds_experts(asked.model.experts, layout.ep),
    ),
    Rule(
        "LoRA on experts does not use expert tensor parallelism",
        "modelscope/mcore-bridge 1.6.5 wheel: mcore_bridge/tuners/lora.py",
        lambda asked, layout: (
            not (asked.model.experts and asked.run.lora and layout.expert_tensor > 1)
        ),
    ),
    Rule(
        "every pipeline stage has a layer; the last one may have fewer "
        "(--decoder-last-pipeline-num-layers)",
        f"{_MEGATRON}training/arguments.py:572, 2569",
        _splits_layers,
    ),
    Rule(
        "2·CP divides the sequence, and TP what of it a rank has (sequence parallelism, which "
        "experts with TP demand)",
        f"{_MEGATRON}training/arguments.py:844; megatron/core/transformer/moe/moe_layer.py",
        lambda asked, layout: (
            splits_sequence(asked.run.sequence, layout.cp)
            and asked.run.sequence // layout.cp % layout.tp == 0
        ),
    ),
    Rule(
        "TP divides the heads of gated delta nets, and CP is 1 before 0.18",
        f"{_NEWER}:976",
        _splits_delta,
    ),
)


def is_from(asked: LayoutQuery, version: str) -> bool:
    """Whether megatron-core is known to be this release or newer."""
    return bool(asked.megatron) and satisfies("pep440", asked.megatron, f">={version}")


def fit_delta(asked: LayoutQuery) -> LayoutQuery:
    """With gated delta nets as they are trained where megatron-core is known to have none.

    mcore-bridge then repeats those of transformers on every rank of TP:
    modelscope/mcore-bridge@v1.2.0:src/mcore_bridge/model/mm_gpts/qwen3_5.py.
    """
    model = asked.model
    if not (model.delta and asked.megatron) or is_from(asked, _GATED):
        return asked
    whole = f"{model.note} Every rank of TP has the gated delta nets whole, without CP.".strip()
    model = replace(model, delta=replace(model.delta, whole=True), note=whole)
    return replace(asked, model=model)


def broken(asked: LayoutQuery, layout: Layout) -> Iterator[Rule]:
    """The rules that a layout breaks; if its sizes do not divide, only that."""
    for rule in RULES if layout.divides else RULES[:1]:
        if not rule.holds(asked, layout):
            yield rule
