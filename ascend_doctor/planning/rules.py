"""What a layout must satisfy, each rule with the place that demands it."""

from collections.abc import Callable, Iterator

import msgspec

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

_MEGATRON = "NVIDIA/Megatron-LM@core_v0.15.3:"


class LayoutQuery(msgspec.Struct, frozen=True, kw_only=True):
    """``megatron`` is the version of megatron-core; empty is any of 0.12 to 0.19."""

    model: Model
    run: TrainingRun
    megatron: str = ""


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """``broken`` says what is wrong, else ""."""

    text: str
    source: str
    broken: Callable[[LayoutQuery, Layout], str]


def _whole(size: int, what: str, parts: int, name: str) -> str:
    return f"{what} ({size}) cannot be split over {name}{parts}" if size % parts else ""


def _ranks(_: LayoutQuery, layout: Layout) -> str:
    if layout.divides:
        return ""
    return f"TP·PP·CP and ETP·EP·PP must divide the {layout.npus} NPUs"


def _heads(asked: LayoutQuery, layout: Layout) -> str:
    return _whole(asked.model.heads, "attention heads", layout.tp, "TP")


def _kv_heads(asked: LayoutQuery, layout: Layout) -> str:
    groups = asked.model.kv_heads
    if asked.model.latent is not None:
        return ""
    # A result that depends on an unknown version is not legal in all versions.
    fits = splits_groups(groups, layout.tp, asked.megatron)
    return "" if fits else f"key and value heads ({groups}) cannot be split over TP{layout.tp}"


def _shared_heads(asked: LayoutQuery, _: Layout) -> str:
    heads, groups = asked.model.heads, asked.model.kv_heads
    if asked.model.latent is not None or heads % groups == 0:
        return ""
    return f"{groups} key and value heads do not share {heads} attention heads"


def _experts(asked: LayoutQuery, layout: Layout) -> str:
    experts = asked.model.experts
    if not experts:
        return (
            "a model without experts has no EP or ETP" if layout.ep * (layout.etp or 1) > 1 else ""
        )
    return _whole(experts, "experts", layout.ep, "EP")


def _expert_width(asked: LayoutQuery, layout: Layout) -> str:
    width = asked.model.expert_ffn
    return _whole(width, "the width of an expert", layout.expert_tensor, "ETP") if width else ""


def _most_experts(asked: LayoutQuery, layout: Layout) -> str:
    if holds_experts(asked.model.experts, layout.ep):
        return ""
    return f"{-(-asked.model.experts // layout.ep)} experts a rank, more than {MOST_EXPERTS}"


def _lora(asked: LayoutQuery, layout: Layout) -> str:
    split = asked.model.experts and asked.run.lora and layout.expert_tensor > 1
    return "LoRA on experts needs ETP1" if split else ""


def _layers(asked: LayoutQuery, layout: Layout) -> str:
    last = len(stages(asked.model, layout)[-1])
    fits = splits_layers(asked.model.layers, layout.pp, None, last)
    return "" if fits else f"{asked.model.layers} layers leave a stage of PP{layout.pp} empty"


def _sequence(asked: LayoutQuery, layout: Layout) -> str:
    if not splits_sequence(asked.run.sequence, layout.cp):
        return f"a sequence of {asked.run.sequence} is no multiple of 2·CP{layout.cp}"
    return _whole(asked.run.sequence // layout.cp, "a sequence (part)", layout.tp, "TP")


def _delta(asked: LayoutQuery, layout: Layout) -> str:
    delta = asked.model.delta
    if delta is None:
        return ""
    if layout.cp > 1 and not is_from(asked, "0.18.0"):
        return "gated delta nets take no CP before megatron-core 0.18 (MindSpeed core_r0.16.0 does)"
    return _whole(delta.key_heads, "key heads of the delta nets", layout.tp, "TP") or _whole(
        delta.value_heads, "value heads of the delta nets", layout.tp, "TP"
    )


def is_from(asked: LayoutQuery, version: str) -> bool:
    """Whether megatron-core is known to be this release or newer."""
    return bool(asked.megatron) and satisfies("pep440", asked.megatron, f">={version}")


RULES = (
    Rule(
        text="TP·PP·CP and ETP·EP·PP divide the number of ranks",
        source=_MEGATRON + "megatron/core/parallel_state.py",
        broken=_ranks,
    ),
    Rule(
        text="TP divides the attention heads",
        source=_MEGATRON + "megatron/core/transformer/transformer_config.py:743",
        broken=_heads,
    ),
    Rule(
        text="TP divides the key and value heads; from 0.16 they may divide TP instead",
        source=_MEGATRON + "megatron/core/transformer/transformer_config.py:758; "
        "NVIDIA/Megatron-LM@core_v0.16.1:megatron/core/transformer/transformer_config.py:940",
        broken=_kv_heads,
    ),
    Rule(
        text="the attention heads are a multiple of the key and value heads",
        source=_MEGATRON + "megatron/core/transformer/attention.py:1073",
        broken=_shared_heads,
    ),
    Rule(
        text="EP divides the experts",
        source=_MEGATRON + "megatron/training/arguments.py:1039",
        broken=_experts,
    ),
    Rule(
        text="ETP divides the width of an expert",
        source=_MEGATRON + "megatron/core/tensor_parallel/layers.py",
        broken=_expert_width,
    ),
    Rule(
        text=f"a rank holds at most {MOST_EXPERTS} experts on NPUs",
        source="modelscope/mcore-bridge 1.6.5 wheel: mcore_bridge/config/model_config.py",
        broken=_most_experts,
    ),
    Rule(
        text="LoRA on experts does not use expert tensor parallelism",
        source="modelscope/mcore-bridge 1.6.5 wheel: mcore_bridge/tuners/lora.py",
        broken=_lora,
    ),
    Rule(
        text="every pipeline stage has a layer; the last one may have fewer "
        "(--decoder-last-pipeline-num-layers)",
        source=_MEGATRON + "megatron/training/arguments.py:572, 2569",
        broken=_layers,
    ),
    Rule(
        text="2·CP divides the sequence, and TP what of it a rank has (sequence parallelism, which "
        "experts with TP demand)",
        source=_MEGATRON + "megatron/training/arguments.py:844; "
        "megatron/core/transformer/moe/moe_layer.py",
        broken=_sequence,
    ),
    Rule(
        text="TP divides the heads of gated delta nets, and CP is 1 before 0.18",
        source="NVIDIA/Megatron-LM@core_v0.16.1:megatron/core/transformer/transformer_config.py:976",
        broken=_delta,
    ),
)


def broken(asked: LayoutQuery, layout: Layout) -> Iterator[tuple[Rule, str]]:
    """The rules that a layout breaks; if its sizes do not divide, only that."""
    for rule in RULES:
        text = rule.broken(asked, layout)
        if text:
            yield rule, text
            if not layout.divides:
                return
