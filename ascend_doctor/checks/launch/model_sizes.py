"""The model that a launch names, against the parallel sizes of the launch."""

from collections.abc import Iterator

from ascend_doctor.checks.launch.options import (
    at,
    is_given,
    number,
    options,
    version,
)
from ascend_doctor.errors import NotApplicable, Unresolved
from ascend_doctor.facts import Launch
from ascend_doctor.findings import Finding, Remedy
from ascend_doctor.judging.judge import Case, check, error
from ascend_doctor.judging.layout_rules import splits_groups, splits_layers

_CONFIG = "NVIDIA/Megatron-LM@core_v0.15.3:megatron/core/transformer/transformer_config.py"
_STAGE_ENDS = ("decoder_first_pipeline_num_layers", "decoder_last_pipeline_num_layers")
_DELTA = "NVIDIA/Megatron-LM@core_v0.16.1:megatron/core/transformer/transformer_config.py:976"
_UNEVEN = ("pipeline_model_parallel_layout", "num_virtual_stages_per_pipeline_rank")
_MOVED = ("num_layers_in_first_pipeline_stage", "num_layers_in_last_pipeline_stage")


@check("run-model-sizes", "The parallel sizes fit the model that is named", scope="launch")
def run_model_sizes(case: Case) -> Iterator[Finding]:
    """ms-swift and verl take heads, layers and experts from the model, not from options.

    Models are known by name (`ascend-doctor plan --model` takes the same), or by their config.json
    where --model is a folder here. Of a model that is not known the sizes cannot be judged, which
    is said. The rules are those of `ascend-doctor plan`.
    """
    options(case)
    launch = case.need(Launch)
    if not launch.model_name:
        raise NotApplicable("the launch command names no model")
    size = {
        short: number(case, f"{name}_model_parallel_size", 1)
        for short, name in {"TP": "tensor", "PP": "pipeline", "EP": "expert"}.items()
    }
    if max(size.values()) == 1:
        return
    model = launch.model_sizes
    if not model:
        raise Unresolved(f"heads, layers and experts of {launch.model_name}")
    yield from _heads(case, model, size["TP"])
    yield from _experts(case, model, size["EP"])
    yield from _layers(case, model, size["PP"])


def _refuse(case: Case, what: str, name: str, option: str, ref: str) -> Finding:
    model = case.need(Launch).model_name
    return error(
        f"{name} does not divide {what} of {model.rstrip('/').rpartition('/')[2]}",
        observed=f"{option} {case.need(Launch).options.get(option, '')}".strip(),
        required=f"a size that divides {what}",
        because="Megatron stops when it builds the model.",
        remedy=Remedy(summary=f"`ascend-doctor plan --model {model}` lists layouts that fit"),
        refs=(ref,),
        location=at(case, option),
    )


def _heads(case: Case, model: dict[str, int], tensor: int) -> Iterator[Finding]:
    option = "tensor_model_parallel_size"
    if model["heads"] % tensor:
        what = f"the {model['heads']} attention heads"
        yield _refuse(case, what, f"TP {tensor}", option, f"{_CONFIG}:743")
    elif splits_groups(model["kv_heads"], tensor, version(case)) is False:
        what = f"the {model['kv_heads']} key and value heads"
        yield _refuse(case, what, f"TP {tensor}", option, f"{_CONFIG}:758")
    elif model.get("key_heads", 0) % tensor or model.get("value_heads", 0) % tensor:
        what = f"the {model['key_heads']} key heads of the delta nets"
        yield _refuse(case, what, f"TP {tensor}", option, _DELTA)


def _experts(case: Case, model: dict[str, int], size: int) -> Iterator[Finding]:
    option = "expert_model_parallel_size"
    if size > 1 and not model["experts"]:
        yield _refuse(case, "the experts (none)", f"EP {size}", option, f"{_CONFIG}:743")
    elif model["experts"] % size:
        what = f"the {model['experts']} experts"
        yield _refuse(case, what, f"EP {size}", option, f"{_CONFIG}:743")


def _layers(case: Case, model: dict[str, int], stages: int) -> Iterator[Finding]:
    launch = case.need(Launch)
    moved = any(key.endswith(_MOVED) for key in launch.values)
    if moved or any(is_given(case, name) for name in _UNEVEN):
        return
    ends = {name: number(case, name, least=0) for name in _STAGE_ENDS if is_given(case, name)}
    if not splits_layers(model["layers"], stages, *(ends.get(name) for name in _STAGE_ENDS)):
        what = f"the {model['layers']} layers"
        option = next(iter(ends), "pipeline_model_parallel_size")
        yield _refuse(case, what, f"PP {stages}", option, f"{_CONFIG}:743")
