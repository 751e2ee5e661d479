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
    """``broken`` says what is wrong, else ""."""

    text: str
    source: str
    broken: Callable[[LayoutQuery, Layout], str]


RULES: list[Rule] = []


def _rule(text: str, source: str) -> Callable[[Callable[[LayoutQuery, Layout], str]], None]:
    return lambda broken: RULES.append(Rule(text, source, broken))


def _whole(size: int, what: str, parts: int, name: str) -> str:
    return f"{what} ({size}) cannot be split over {name}{parts}" if size % parts else ""


@_rule("TP·PP·CP and ETP·EP·PP divide the number of ranks", f"{_MEGATRON}core/parallel_state.py")
def _ranks(_: LayoutQuery, layout: Layout) -> str:
    if layout.divides:
        return ""
    return f"TP·PP·CP and ETP·EP·PP must divide the {layout.npus} NPUs"


@_rule("TP divides the attention heads", f"{_MEGATRON}{_CONFIG}:743")
def _heads(asked: LayoutQuery, layout: Layout) -> str:
    return _whole(asked.model.heads, "attention heads", layout.tp, "TP")


@_rule(
    "TP divides the key and value heads; from 0.16 they may divide TP instead",
    f"{_MEGATRON}{_CONFIG}:758; {_NEWER}:940",
)
def _kv_heads(asked: LayoutQuery, layout: Layout) -> str:
    groups = asked.model.kv_heads
    if asked.model.latent is not None:
        return ""
    # A result that depends on an unknown version is not legal in all versions.
    fits = splits_groups(groups, layout.tp, asked.megatron)
    return "" if fits else f"key and value heads ({groups}) cannot be split over TP{layout.tp}"


@_rule(
    "the attention heads are a multiple of the key and value heads",
    f"{_MEGATRON}core/transformer/attention.py:1073",
)
def _shared_heads(asked: LayoutQuery, _: Layout) -> str:
    heads, groups = asked.model.heads, asked.model.kv_heads
    if asked.model.latent is not None or heads % groups == 0:
        return ""
    return f"{groups} key and value heads do not share {heads} attention heads"


@_rule("EP divides the experts", f"{_MEGATRON}training/arguments.py:1039")
def _experts(asked: LayoutQuery, layout: Layout) -> str:
    experts = asked.model.experts
    if not experts:
        return (
            "a model without experts has no EP or ETP" if layout.ep * (layout.etp or 1) > 1 else ""
        )
    return _whole(experts, "experts", layout.ep, "EP")


@_rule("ETP divides the width of an expert", f"{_MEGATRON}core/tensor_parallel/layers.py")
def _expert_width(asked: LayoutQuery, layout: Layout) -> str:
    width = asked.model.expert_ffn
    return _whole(width, "the width of an expert", layout.expert_tensor, "ETP") if width else ""


@_rule(
    f"a rank holds at most {MOST_EXPERTS} experts on NPUs",
    "modelscope/mcore-bridge 1.6.5 wheel: mcore_bridge/config/model_config.py",
)
def _most_experts(asked: LayoutQuery, layout: Layout) -> str:
    if holds_experts(asked.model.experts, layout.ep):
        return ""
    return f"{-(-asked.model.experts // layout.ep)} experts a rank, more than {MOST_EXPERTS}"


@_rule(
    "LoRA on experts does not use expert tensor parallelism",
    "modelscope/mcore-bridge 1.6.5 wheel: mcore_bridge/tuners/lora.py",
)
def _lora(asked: LayoutQuery, layout: Layout) -> str:
    split = asked.model.experts and asked.run.lora and layout.expert_tensor > 1
    return "LoRA on experts needs ETP1" if split else ""


@_rule(
    "every pipeline stage has a layer; the last one may have fewer "
    "(--decoder-last-pipeline-num-layers)",
    f"{_MEGATRON}training/arguments.py:572, 2569",
)
def _layers(asked: LayoutQuery, layout: Layout) -> str:
    last = len(stages(asked.model, layout)[-1])
    fits = splits_layers(asked.model.layers, layout.pp, None, last)
    return "" if fits else f"{asked.model.layers} layers leave a stage of PP{layout.pp} empty"


@_rule(
    "2·CP divides the sequence, and TP what of it a rank has (sequence parallelism, which "
    "experts with TP demand)",
    f"{_MEGATRON}training/arguments.py:844; megatron/core/transformer/moe/moe_layer.py",
)
def _sequence(asked: LayoutQuery, layout: Layout) -> str:
    if not splits_sequence(asked.run.sequence, layout.cp):
        return f"a sequence of {asked.run.sequence} is no multiple of 2·CP{layout.cp}"
    return _whole(asked.run.sequence // layout.cp, "a sequence (part)", layout.tp, "TP")


@_rule("TP divides the heads of gated delta nets, and CP is 1 before 0.18", f"{_NEWER}:976")
def _delta(asked: LayoutQuery, layout: Layout) -> str:
    delta = asked.model.delta
    if delta is None:
        return ""
    if layout.cp > 1 and not is_from(asked, "0.18.0"):
        return "gated delta nets take no CP before megatron-core 0.18 (MindSpeed core_r0.16.0 does)"
    if delta.whole:
        return ""
    return _whole(delta.key_heads, "key heads of the delta nets", layout.tp, "TP") or _whole(
        delta.value_heads, "value heads of the delta nets", layout.tp, "TP"
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


def broken(asked: LayoutQuery, layout: Layout) -> Iterator[tuple[Rule, str]]:
    """The rules that a layout breaks; if its sizes do not divide, only that."""
    for rule in RULES:
        text = rule.broken(asked, layout)
        if text:
            yield rule, text
            if not layout.divides:
                return
