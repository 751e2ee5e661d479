"""The file of `--mm-model` against the parallel sizes of a launch of MindSpeed-MM."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from ascend_doctor.checks.launch.options import (
    GROUPS,
    at,
    is_given,
    number,
    options,
    version,
)
from ascend_doctor.errors import NotApplicable, Unresolved
from ascend_doctor.facts import Launch
from ascend_doctor.findings import Finding, Place
from ascend_doctor.judging.judge import Case, check, error
from ascend_doctor.judging.layout_rules import splits_groups

_REPOSITORY = "Ascend/MindSpeed-MM@57069cd5"
_VLM = f"{_REPOSITORY}:mindspeed_mm/models/vlm_model.py"
_PREDICTOR = f"{_REPOSITORY}:mindspeed_mm/models/predictor/predict_model.py"
_ATTENTION = f"{_REPOSITORY}:mindspeed_mm/models/common/attention.py:292"
_VALIDATE = f"{_REPOSITORY}:mindspeed_mm/patchs/validate_args_patch.py:282"
_CONFIG = "NVIDIA/Megatron-LM@core_v0.12.1:megatron/core/transformer/transformer_config.py"
_MOE = "NVIDIA/Megatron-LM@core_v0.12.1:megatron/core/transformer/moe/moe_layer.py:46"
# Entry files that build their models from these parts; others take models of transformers.
_ENTRIES = re.compile(r"(?:^|\.)(?:pretrain|posttrain|inference|evaluate)_(?:vlm|sora)(?:_\w+)?$")
# Where each part is built, and where its lists of layers are compared with the pipeline.
_PARTS = {
    "text_decoder": f"{_VLM}:318",
    "image_encoder/vision_encoder": f"{_VLM}:159",
    "audio_encoder/audio_encoder": f"{_VLM}:235",
    "predictor": f"{_PREDICTOR}:85",
}
_LISTED = "pipeline_num_layers"
_VIRTUAL = "virtual_pipeline_model_parallel_size"
_INT = re.compile(r"\d{1,9}")


class _ModelPart(msgspec.Struct, frozen=True):
    """A part of the model: its plain sizes, its lists of layers, and their places."""

    name: str
    sizes: dict[str, int]
    stages: tuple[tuple[int, ...], ...]
    places: dict[str, Place]

    def size(self, *names: str) -> int:
        """The first of these sizes that it has; 0 without one."""
        return next((self.sizes[name] for name in names if name in self.sizes), 0)

    def locate(self, *names: str) -> Place | None:
        """Where the first of these stands."""
        return next((self.places[name] for name in names if name in self.places), None)


def _parts(launch: Launch) -> Iterator[_ModelPart]:
    for name in _PARTS:
        before = f"mm_model/{name}/"
        inside = {
            key.removeprefix(before): text
            for key, text in launch.values.items()
            if key.startswith(before)
        }
        sizes = {key: int(text) for key, text in inside.items() if _INT.fullmatch(text)}
        places = {
            key: launch.places[before + key] for key in inside if before + key in launch.places
        }
        if sizes:
            own = {key: size for key, size in sizes.items() if "/" not in key}
            yield _ModelPart(name, own, _read_stages(sizes), places)


def _read_stages(sizes: dict[str, int]) -> tuple[tuple[int, ...], ...]:
    """Layers of the stages, by virtual stages; a plain list is the one of its kind."""
    rows: dict[str, list[int]] = {}
    for key, count in sizes.items():
        name, *rest = key.split("/")
        if name == "pipeline_num_layers" and rest:
            rows.setdefault(rest[0] if len(rest) > 1 else "", []).append(count)
    return tuple(map(tuple, rows.values()))


@check("run-mm-model", "The file of --mm-model fits the parallel sizes", scope="launch")
def run_mm_model(case: Case) -> Iterator[Finding]:
    """MindSpeed-MM has layers, heads and experts of its models in a file.

    With a pipeline each part lists the layers of every stage, of every virtual stage where there
    are some, which have to add up; TP divides heads and query groups of each part, EP the experts.
    Models that are built from transformers have their sizes elsewhere.
    """
    options(case)
    launch = case.need(Launch)
    if "mm_model" not in launch.options:
        raise NotApplicable("the launch command names no --mm-model")
    if not any(key.startswith("mm_model/") for key in launch.values):
        raise Unresolved("what the file of --mm-model says")
    names = {"TP": "tensor", "PP": "pipeline", "EP": "expert"}
    size = {short: number(case, f"{name}_model_parallel_size", 1) for short, name in names.items()}
    if not _ENTRIES.search(launch.module):
        if max(size.values()) > 1:
            raise Unresolved("the sizes of a model that is not built from these parts")
        return
    apart = any(name in launch.flags for name in ("hetero-parallel", "dist-train"))
    if apart:
        raise Unresolved("the parts of the model have parallel sizes of their own")
    parts = tuple(_parts(launch))
    for part in parts:
        yield from _heads_divide(case, part, size["TP"])
        yield from _experts_divide(case, part, size["EP"])
    if size["PP"] > 1:
        yield from _pipeline_fits(case, parts, size["PP"])


def _heads_divide(case: Case, part: _ModelPart, tensor: int) -> Iterator[Finding]:
    heads = part.size("num_attention_heads", "num_heads")
    groups, width = part.size("num_query_groups"), part.size("hidden_size")
    option, ref = "tensor_model_parallel_size", f"{_CONFIG}:559"
    if part.name == "predictor":
        ref = _ATTENTION
    if heads % tensor:
        yield error(
            f"TP {tensor} does not divide the {heads} heads of {part.name}",
            observed=f"{option} {tensor}, num_attention_heads {heads}",
            required="a size that divides the heads",
            because="Each rank has heads of its own; building the model stops otherwise.",
            refs=(ref,),
            location=_suspect(case, part, heads, option, "num_attention_heads", "num_heads"),
        )
    elif groups and splits_groups(groups, tensor, version(case)) is False:
        yield error(
            f"TP {tensor} does not divide the {groups} query groups of {part.name}",
            observed=f"{option} {tensor}, num_query_groups {groups}",
            required="a size that divides the groups",
            because="Each rank has key and value heads of its own.",
            refs=(f"{_CONFIG}:574",),
            location=_suspect(case, part, groups, option, "num_query_groups"),
        )
    elif heads and groups and heads % groups:
        yield error(
            f"{groups} query groups do not divide the {heads} heads of {part.name}",
            observed=f"num_attention_heads {heads}, num_query_groups {groups}",
            required="heads as a multiple of the groups",
            because="As many heads share each group; the first forward pass stops otherwise.",
            refs=(GROUPS,),
            location=part.locate("num_query_groups"),
        )
    elif part.name == "predictor" and heads and width % heads:
        yield error(
            f"{heads} heads do not divide the hidden size {width} of {part.name}",
            observed=f"num_heads {heads}, hidden_size {width}",
            required="a hidden size as a multiple of the heads",
            because="The predictor raises ValueError.",
            refs=(f"{_REPOSITORY}:mindspeed_mm/models/predictor/dits/wan_dit.py:69",),
            location=part.locate("num_heads", "num_attention_heads"),
        )


def _suspect(case: Case, part: _ModelPart, whole: int, option: str, *names: str) -> Place | None:
    """What is to be changed: an odd number of heads in the file, else the parallel size."""
    own = part.locate(*names)
    return own if whole % 2 else at(case, option) or own


def _experts_divide(case: Case, part: _ModelPart, size: int) -> Iterator[Finding]:
    experts = part.size("num_moe_experts", "num_experts")
    if experts % size:
        yield error(
            f"EP {size} does not divide the {experts} experts of {part.name}",
            observed=f"expert_model_parallel_size {size}, num_moe_experts {experts}",
            required="a size that divides the experts",
            because="Megatron's layer of experts asserts it.",
            refs=(_MOE,),
            location=at(case, "expert_model_parallel_size"),
        )


def _pipeline_fits(case: Case, parts: Sequence[_ModelPart], stages: int) -> Iterator[Finding]:
    virtual = number(case, _VIRTUAL, 1) if is_given(case, _VIRTUAL) else 1
    expected = [stages] * virtual
    shapes = {tuple(map(len, part.stages)) for part in parts}
    # Where all parts agree, the file is meant for another pipeline.
    alike = len(parts) > 1 and len(shapes) == 1
    for part in parts:
        shape = list(map(len, part.stages))
        where = part.locate(*(key for key in part.places if key.startswith(_LISTED)))
        if not shape:
            yield _lacks_list(case, part, stages)
        elif shape != expected:
            yield error(
                f"{part.name} lists layers of {_show_shape(shape)} stages",
                observed=f"{_LISTED} of {_show_shape(shape)}, PP {stages}",
                required=f"{_show_shape(expected)} numbers",
                because="MindSpeed-MM raises ValueError when it builds the model.",
                refs=(_PARTS[part.name], *((_VALIDATE,) if virtual > 1 else ())),
                location=at(case, "pipeline_model_parallel_size") if alike else where,
            )
            if alike:
                return
        elif whole := part.size("num_layers"):
            yield from _adds_up(part, whole, where)


def _lacks_list(case: Case, part: _ModelPart, stages: int) -> Finding:
    return error(
        f"{part.name} has no {_LISTED}",
        observed=f"pipeline_model_parallel_size {stages}, no {_LISTED}",
        required=f"a list of {stages} numbers",
        because="MindSpeed-MM takes the layers of each stage from it.",
        refs=(f"{_PREDICTOR}:60",) if part.name == "predictor" else (_PARTS[part.name],),
        location=part.locate("num_layers") or at(case, "mm_model"),
    )


def _adds_up(part: _ModelPart, layers: int, where: Place | None) -> Iterator[Finding]:
    listed = sum(map(sum, part.stages))
    if listed != layers:
        yield error(
            f"The stages of {part.name} have {listed} layers of {layers}",
            observed=f"{_LISTED} adds up to {listed}, num_layers {layers}",
            required=f"numbers that add up to {layers}",
            because="MindSpeed-MM raises ValueError."
            if part.name == "predictor"
            else "No stage is then the last one, so that nothing computes the output.",
            refs=(f"{_PREDICTOR}:67",) if part.name == "predictor" else (f"{_VLM}:343",),
            location=where,
        )


def _show_shape(shape: Sequence[int]) -> str:
    return str(shape[0]) if len(shape) == 1 else " + ".join(map(str, shape))
