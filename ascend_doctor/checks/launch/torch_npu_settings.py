"""Settings of torch_npu that go together or exclude each other."""

from ascend_doctor.checks.launch.options import at, flag, number
from ascend_doctor.facts import Environment
from ascend_doctor.judging import Case, Findings, Level, Texts
from ascend_doctor.judging.chip import family_or_none
from ascend_doctor.judging.env_values import settings, show_values, unset
from ascend_doctor.judging.value_bounds import pairs

TEXTS = Texts("torch-npu-settings")

HCCL_VARIABLES = "hicann/hccl@09300b70:docs/zh/user_guide/hccl_env"
TORCH_NPU_VARIABLES = "Ascend/pytorch@9e73e708:docs/zh/api/environment_variable"
_ALLOC = "PYTORCH_NPU_ALLOC_CONF"
_CONNECTIONS, _OVERLAP = "CUDA_DEVICE_MAX_CONNECTIONS", "overlap-moe-expert-parallel-comm"
_FSDP = ("use_torch_fsdp2", "use_megatron_fsdp", "use_custom_fsdp")
_SPLIT = ("tensor_model_parallel_size", "context_parallel_size")


@TEXTS.check("variables-allocator")
def _variables_allocator(case: Case) -> Findings:
    values = settings(case)
    options = pairs(values.get(_ALLOC, "")) or {}
    expandable = options.get("expandable_segments") == "True"
    clash = [
        option
        for option in ("max_split_size_mb", "garbage_collection_threshold")
        if option in options
    ]
    ref = f"{TORCH_NPU_VARIABLES}/memory_management/PYTORCH_NPU_ALLOC_CONF.md"
    if expandable and clash:
        yield TEXTS.finding(
            "no-expandable",
            refs=(ref,),
            clash=" and ".join(clash),
            observed=show_values(values, _ALLOC),
        )
    if values.get("TORCH_HCCL_ZERO_COPY") == "1" and not expandable:
        yield TEXTS.finding(
            "no-zero-copy",
            remedy=unset("TORCH_HCCL_ZERO_COPY"),
            observed=show_values(values, "TORCH_HCCL_ZERO_COPY", _ALLOC),
        )
    if _ALLOC in values and "PYTORCH_ALLOC_CONF" in case.need(Environment).withheld:
        yield TEXTS.finding("two-allocators", refs=(ref,))


@TEXTS.check("variables-overflow")
def _variables_overflow(case: Case) -> Findings:
    values = settings(case)
    off = values.get("INF_NAN_MODE_ENABLE") == "0"
    forced = values.get("INF_NAN_MODE_FORCE_DISABLE") == "1"
    family = family_or_none(case)
    names = ("INF_NAN_MODE_ENABLE", "INF_NAN_MODE_FORCE_DISABLE")
    shown = show_values(values, *names)
    refs = (f"{TORCH_NPU_VARIABLES}/op_execution/INF_NAN_MODE_ENABLE.md",)
    if off and not forced and (family is None or family.inf_nan_only):
        yield TEXTS.finding(
            "saturates",
            level=Level.WARNING if family is None else None,
            remedy=unset(*names),
            refs=refs,
            observed=f"{shown} on {family.title}" if family else f"{shown} on an unknown chip",
        )
    elif forced and values.get("HCCL_DETERMINISTIC", "").lower() == "strict":
        yield TEXTS.finding(
            "strict-saturates",
            remedy=unset(*names),
            observed=show_values(values, "HCCL_DETERMINISTIC", *names),
        )


@TEXTS.check("variables-agree")
def _variables_agree(case: Case) -> Findings:
    values = settings(case)
    names = ("TORCH_HCCL_ASYNC_ERROR_HANDLING", "HCCL_ASYNC_ERROR_HANDLING")
    if all(name in values for name in names) and values[names[0]] != values[names[1]]:
        yield TEXTS.finding("two-handlers", shown=show_values(values, *names), names=names)
    if values.get("ASCEND_LAUNCH_BLOCKING") == "1" and values.get("TASK_QUEUE_ENABLE") in {
        "1",
        "2",
    }:
        yield TEXTS.finding(
            "void-queue",
            observed=show_values(values, "ASCEND_LAUNCH_BLOCKING", "TASK_QUEUE_ENABLE"),
        )


@TEXTS.check("max-connections")
def _max_connections(case: Case) -> Findings:
    value = settings(case).get(_CONNECTIONS)
    launch = case.facts.launch
    if value is None or launch is None or launch.program not in {"megatron", ""}:
        return
    fsdp = [name for name in _FSDP if flag(case, name)]
    split = [name for name in _SPLIT if number(case, name, 1) > 1]
    if value == "1" and fsdp:
        wrong, required = f"FSDP refuses {_CONNECTIONS}=1", f"{_CONNECTIONS} unset or above 1"
        seen = f"--{fsdp[0].replace('_', '-')}"
    elif value != "1" and split and not fsdp and _OVERLAP not in launch.flags:
        wrong, required = f"Megatron-LM refuses {_CONNECTIONS}={value!r}", f"{_CONNECTIONS}=1"
        seen = f"--{split[0].replace('_', '-')} {launch.options[split[0]]}"
    else:
        return
    yield TEXTS.finding(
        "connections",
        at(case, _CONNECTIONS),
        wrong=wrong,
        shown=show_values({_CONNECTIONS: value}, _CONNECTIONS),
        seen=seen,
        required=required,
    )
