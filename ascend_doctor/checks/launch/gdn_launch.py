"""A launch of a model with gated delta nets (Qwen3.5, Qwen3-Next): which of them it gets."""

from ascend_doctor.checks.launch.options import (
    at,
    behaviour_refs,
    flag,
    number,
    options,
    unseen,
    version,
)
from ascend_doctor.facts import UNTOLD, Launch
from ascend_doctor.judging import Case, Findings, NotApplicable, Remedy, Texts, Unknown, Unresolved
from ascend_doctor.judging.packages import distribution, variable
from ascend_doctor.judging.version_compare import is_in_range

TEXTS = Texts("gdn-launch")

BRIDGE_PARSER = "modelscope/mcore-bridge@v1.0.0:src/mcore_bridge/config/parser.py"
BRIDGE_CONFIG = "modelscope/mcore-bridge@v1.2.0:src/mcore_bridge/config/model_config.py:277"
NAME = "USE_MCORE_GDN"
# The models for which mcore-bridge reads the variable, as spelt in launches.
_MODELS = ("qwen3.5", "qwen3_5", "qwen3-next", "qwen3_next")
_FIRST = ">=0.16.0.dev0"  # the first megatron-core with a gated delta net
_OWN = Remedy(summary="Take Megatron's own layers", commands=(f"export {NAME}=1",))
_NO_CONTEXT = Remedy(summary="Set context_parallel_size to 1")
_REMEDY = Remedy(summary="Take the implementation of transformers", commands=(f"export {NAME}=0",))


def has_gated_delta_nets(model: str) -> bool | None:
    """Whether a model has gated delta nets, by its name; None if unknown."""
    name = model.lower()
    if any(known in name for known in _MODELS):
        return True
    return None if not name or UNTOLD in name else False


def _name_own(case: Case) -> str:
    """Megatron's own layers as a way out, unless it is too old."""
    newest = version(case)
    return "" if newest and not is_in_range(newest, _FIRST) else f", or {NAME}=1"


def _read_layers(case: Case) -> tuple[dict[str, str], str | None]:
    """The options of a launch with gated delta nets, and the value of USE_MCORE_GDN."""
    launch_options = options(case)
    model = launch_options.get("model", "")
    if UNTOLD in model:
        raise Unresolved("which model it is; its name is known when the launch runs")
    if not has_gated_delta_nets(model):
        raise NotApplicable("the model has no gated delta nets, as far as its name tells")
    if launch_options.get("use_mcore_gdn"):
        return launch_options, launch_options["use_mcore_gdn"]
    if NAME in unseen(case):
        raise Unresolved(f"{NAME} is known when the launch runs")
    value = variable(case, NAME)
    if value is None and case.need(Launch).open_environment:
        raise Unresolved(f"whether {NAME} is set; a file that is sourced may set it")
    return launch_options, value


@TEXTS.check("run-gdn-megatron")
def _run_gdn_megatron(case: Case) -> Findings:
    launch_options, value = _read_layers(case)
    if case.need(Launch).program not in {"megatron-swift", ""}:
        raise NotApplicable("the launch command does not start ms-swift with Megatron")
    newest = version(case)
    if not newest:
        raise Unknown("which Megatron-LM it is; give --megatron or examine its environment")
    if value != "0" and not is_in_range(newest, _FIRST):
        where, model = at(case, NAME, "use_mcore_gdn", "model"), launch_options["model"]
        refs = behaviour_refs(case, "megatron-core", "no-gdn")
        value = value or "unset, which means 1"
        yield TEXTS.finding(
            "no-delta-nets",
            where,
            remedy=_REMEDY,
            refs=refs,
            model=model,
            newest=newest,
            value=value,
        )


@TEXTS.check("gdn-zero-with-cp")
def _gdn_zero_with_cp(case: Case) -> Findings:
    launch_options, value = _read_layers(case)
    size = number(case, "context_parallel_size", 1)
    if value == "0" and size > 1:
        where, model = at(case, "context_parallel_size"), launch_options["model"]
        refs = behaviour_refs(case, "mcore-bridge", "gdn-zero-no-cp")
        own = _name_own(case)
        remedy = _OWN if version(case) and own else _NO_CONTEXT
        yield TEXTS.finding(
            "no-context", where, remedy=remedy, refs=refs, size=size, model=model, own=own
        )


@TEXTS.check("run-gdn-padding")
def _run_gdn_padding(case: Case) -> Findings:
    launch_options, value = _read_layers(case)
    if launch_options.get("padding_free", "").lower() not in {"false", "0"} or value != "0":
        return
    bridge = distribution(case, "mcore-bridge")
    if not is_in_range(bridge.version, ">=1.2.1"):
        refs = behaviour_refs(case, "mcore-bridge", "npu-gdn-mask-fix")
        yield TEXTS.finding("padded", at(case, "padding_free"), refs=refs, bridge=bridge)


@TEXTS.check("run-gdn-packing")
def _run_gdn_packing(case: Case) -> Findings:
    _, value = _read_layers(case)
    if value == "0" and flag(case, "packing"):
        yield TEXTS.finding("packed", at(case, "packing"), own=_name_own(case))
