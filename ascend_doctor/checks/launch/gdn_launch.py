"""A launch of a model with gated delta nets (Qwen3.5, Qwen3-Next): which of them it gets."""

from collections.abc import Iterator

from ascend_doctor.checks.launch.options import (
    at,
    behaviour_refs,
    flag,
    number,
    options,
    unseen,
    version,
)
from ascend_doctor.errors import NotApplicable, Unknown, Unresolved
from ascend_doctor.facts import UNTOLD, Launch
from ascend_doctor.findings import Finding, Remedy
from ascend_doctor.judging.judge import Case, check, error, warning
from ascend_doctor.judging.packages import distribution, variable
from ascend_doctor.judging.version_compare import is_in_range

BRIDGE_PARSER = "modelscope/mcore-bridge@v1.0.0:src/mcore_bridge/config/parser.py"
BRIDGE_CONFIG = "modelscope/mcore-bridge@v1.2.0:src/mcore_bridge/config/model_config.py:277"
NAME = "USE_MCORE_GDN"
_PACKED = "modelscope/mcore-bridge@v1.2.2:src/mcore_bridge/model/mm_gpts/qwen3_5_gdn.py"
# The models for which mcore-bridge reads the variable, as spelt in launches.
_MODELS = ("qwen3.5", "qwen3_5", "qwen3-next", "qwen3_next")
_FIRST = ">=0.16.0.dev0"  # the first megatron-core with a gated delta net
_REMEDY = Remedy(summary="Take the implementation of transformers", commands=(f"export {NAME}=0",))


def has_gated_delta_nets(model: str) -> bool | None:
    """Whether a model has gated delta nets, by its name; None if unknown."""
    name = model.lower()
    if any(known in name for known in _MODELS):
        return True
    return None if not name or UNTOLD in name else False


def _options_of_gated_delta(case: Case) -> dict[str, str]:
    launch_options = options(case)
    model = launch_options.get("model", "")
    if UNTOLD in model:
        raise Unresolved("which model it is; its name is known when the launch runs")
    if not has_gated_delta_nets(model):
        raise NotApplicable("the model has no gated delta nets, as far as its name tells")
    return launch_options


def _variable(case: Case, launch_options: dict[str, str]) -> str | None:
    if launch_options.get("use_mcore_gdn"):
        return launch_options["use_mcore_gdn"]
    if NAME in unseen(case):
        raise Unresolved(f"{NAME} is known when the launch runs")
    value = variable(case, NAME)
    if value is None and case.need(Launch).open_environment:
        raise Unresolved(f"whether {NAME} is set; a file that is sourced may set it")
    return value


@check(
    "run-gdn-megatron",
    "This Megatron-LM has the gated delta nets that the model needs",
    scope="launch",
)
def run_gdn_megatron(case: Case) -> Iterator[Finding]:
    """Megatron-core has gated delta nets from 0.16.0 on.

    With an older one Qwen3.5 and Qwen3-Next start only with USE_MCORE_GDN=0, which takes the layers
    of transformers; unset means 1, and mcore-bridge then refuses the model's configuration.
    ms-swift trains through mcore-bridge. Give the launch command behind `--` to have it judged.
    """
    gated_delta_only = _options_of_gated_delta(case)
    if case.need(Launch).program not in {"megatron-swift", ""}:
        raise NotApplicable("the launch command does not start ms-swift with Megatron")
    newest = version(case)
    if not newest:
        raise Unknown("which Megatron-LM it is; give --megatron or examine its environment")
    value = _variable(case, gated_delta_only)
    if value != "0" and not is_in_range(newest, _FIRST):
        yield error(
            f"{gated_delta_only['model']} needs {NAME}=0 with Megatron-core {newest}",
            observed=f"{NAME} is {value or 'unset, which means 1'}",
            required=f"{NAME}=0, or Megatron-core 0.16.0 or newer",
            because="It ends with ImportError: experimental attention variant requires "
            "megatron-core>=0.16.0.",
            remedy=_REMEDY,
            refs=(BRIDGE_PARSER, BRIDGE_CONFIG, *behaviour_refs(case, "megatron-core", "no-gdn")),
            location=at(case, NAME, "use_mcore_gdn", "model"),
        )


@check(
    "gdn-zero-with-cp",
    "The gated delta net of transformers is not split by context parallel",
    scope="launch",
)
def gdn_zero_with_cp(case: Case) -> Iterator[Finding]:
    """With USE_MCORE_GDN=0 the gated delta net layers are those of transformers.

    They know no context parallelism, so mcore-bridge refuses a context parallel size above 1 for
    Qwen3.5 and Qwen3-Next; other models do not care. From Megatron-core 0.16 on USE_MCORE_GDN=1
    takes layers that are split. Give the launch command behind `--` to have it judged.
    """
    gated_delta_only = _options_of_gated_delta(case)
    size = number(case, "context_parallel_size", 1)
    if _variable(case, gated_delta_only) != "0" or size == 1:
        return
    newest = version(case)
    has_own = bool(newest) and is_in_range(newest, _FIRST)
    yield error(
        f"USE_MCORE_GDN=0 and context parallel size {size} exclude each other",
        observed=f"{gated_delta_only['model']}, USE_MCORE_GDN=0, context_parallel_size {size}",
        required="context_parallel_size 1"
        + ("" if newest and not has_own else ", or USE_MCORE_GDN=1 with Megatron-core 0.16"),
        because="The layers of transformers know no context parallelism.",
        remedy=Remedy(summary="Take Megatron's own layers", commands=(f"export {NAME}=1",))
        if has_own
        else Remedy(summary="Set context_parallel_size to 1"),
        refs=behaviour_refs(case, "mcore-bridge", "gdn-zero-no-cp"),
        location=at(case, "context_parallel_size"),
    )


@check("run-gdn-padding", "Padding does not reach gated delta nets of old bridges", scope="launch")
def run_gdn_padding(case: Case) -> Iterator[Finding]:
    """Before 1.2.1 mcore-bridge gives gated delta nets the wrong mask where samples are padded.

    With padding_free false and USE_MCORE_GDN=0 the mask is the one that MindSpeed compresses. The
    training fails, asynchronously in aclnnFlashAttentionScore.
    """
    gated_delta_only = _options_of_gated_delta(case)
    padding = gated_delta_only.get("padding_free", "").lower()
    if padding not in {"false", "0"} or _variable(case, gated_delta_only) != "0":
        return
    bridge = distribution(case, "mcore-bridge")
    if not is_in_range(bridge.version, ">=1.2.1"):
        yield error(
            f"mcore-bridge {bridge.version} fails without padding_free",
            observed="USE_MCORE_GDN=0, padding_free false",
            required="padding_free true, or mcore-bridge 1.2.1 or newer",
            because="Gated delta nets read the mask that MindSpeed compresses.",
            refs=behaviour_refs(case, "mcore-bridge", "npu-gdn-mask-fix"),
            location=at(case, "padding_free"),
        )


@check(
    "run-gdn-packing",
    "Packed samples stay apart in gated delta nets",
    scope="launch",
)
def run_gdn_packing(case: Case) -> Iterator[Finding]:
    """With USE_MCORE_GDN=0 Qwen3.5 and Qwen3-Next mix packed samples, or refuse them.

    Older mcore-bridge lets several sequences inside one packed sample see each other; newer ones
    raise without flash-linear-attention's convolution.
    """
    gated_delta_only = _options_of_gated_delta(case)
    if _variable(case, gated_delta_only) == "0" and flag(case, "packing"):
        newest = version(case)
        yield warning(
            "Packing with the gated delta nets of transformers",
            observed="USE_MCORE_GDN=0, packing true",
            required="packing false"
            + ("" if newest and not is_in_range(newest, _FIRST) else ", or USE_MCORE_GDN=1"),
            because="Samples in one pack can see each other, or mcore-bridge refuses.",
            refs=(_PACKED,),
            location=at(case, "packing"),
        )
