"""Settings of torch_npu that go together or exclude each other."""

from collections.abc import Iterator

from ascend_doctor.checks.launch.options import at, flag, number
from ascend_doctor.facts import Environment
from ascend_doctor.findings import Finding, Remedy
from ascend_doctor.judging.chip import family_or_none
from ascend_doctor.judging.env_values import settings, show_values, unset
from ascend_doctor.judging.judge import Case, check, error, note, warning
from ascend_doctor.judging.value_bounds import pairs

HCCL_VARIABLES = "hicann/hccl@09300b70:docs/zh/user_guide/hccl_env"
TORCH_NPU_VARIABLES = "Ascend/pytorch@9e73e708:docs/zh/api/environment_variable"
_ALLOCATOR = "Ascend/pytorch@9e73e708:torch_npu/csrc/core/npu/NPUAllocatorConfig.cpp"
_OPTIONS = "Ascend/pytorch@9e73e708:torch_npu/csrc/core/npu/register/OptionsManager.cpp"
MEGATRON_OPTIONS = "NVIDIA/Megatron-LM@d98e8a64:megatron/training/arguments.py"
_ALLOC = "PYTORCH_NPU_ALLOC_CONF"
_CONNECTIONS, _OVERLAP = "CUDA_DEVICE_MAX_CONNECTIONS", "overlap-moe-expert-parallel-comm"
_FSDP = ("use_torch_fsdp2", "use_megatron_fsdp", "use_custom_fsdp")
_SPLIT = ("tensor_model_parallel_size", "context_parallel_size")


@check("variables-allocator", "NPU allocator options fit together", scope="launch")
def variables_allocator(case: Case) -> Iterator[Finding]:
    """PYTORCH_NPU_ALLOC_CONF sets up the caching allocator of torch_npu.

    expandable_segments:True excludes max_split_size_mb and garbage_collection_threshold: the first
    allocation fails. TORCH_HCCL_ZERO_COPY=1 needs expandable_segments:True. PYTORCH_ALLOC_CONF is
    the newer name (torch_npu 26.2.0); setting both is refused.
    """
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
        yield error(
            f"expandable_segments:True excludes {' and '.join(clash)}",
            observed=show_values(values, _ALLOC),
            required="one or the other",
            because="torch_npu stops at the first allocation.",
            remedy=Remedy(
                summary="Keep expandable_segments, which training scripts use",
                commands=(f"export {_ALLOC}=expandable_segments:True",),
            ),
            refs=(ref, _ALLOCATOR),
        )
    if values.get("TORCH_HCCL_ZERO_COPY") == "1" and not expandable:
        yield warning(
            "TORCH_HCCL_ZERO_COPY=1 needs expandable_segments:True",
            observed=show_values(values, "TORCH_HCCL_ZERO_COPY", _ALLOC),
            required=f"{_ALLOC}=expandable_segments:True, or no zero copy",
            because="Without expandable segments there is no zero copy.",
            remedy=unset("TORCH_HCCL_ZERO_COPY"),
            refs=(f"{TORCH_NPU_VARIABLES}/collective_communication/TORCH_HCCL_ZERO_COPY.md",),
        )
    if _ALLOC in values and "PYTORCH_ALLOC_CONF" in case.need(Environment).withheld:
        yield warning(
            f"{_ALLOC} and PYTORCH_ALLOC_CONF are both set",
            observed="both are set",
            required="one of them",
            because="torch_npu 26.2.0 and newer refuse both; older ones read the first only.",
            remedy=Remedy(
                summary="Keep the name that every torch_npu reads",
                commands=("unset PYTORCH_ALLOC_CONF",),
            ),
            refs=(ref, _ALLOCATOR),
        )


@check("variables-overflow", "Overflow gives inf and nan", scope="launch")
def variables_overflow(case: Case) -> Iterator[Finding]:
    """INF_NAN_MODE_ENABLE=0 lets an overflow saturate in place of giving inf or nan.

    On A2 and A3 torch_npu refuses it unless INF_NAN_MODE_FORCE_DISABLE=1 is set as well; on the
    first generation and on 950 it is ignored. HCCL_DETERMINISTIC=strict needs inf and nan.
    """
    values = settings(case)
    off = values.get("INF_NAN_MODE_ENABLE") == "0"
    forced = values.get("INF_NAN_MODE_FORCE_DISABLE") == "1"
    family = family_or_none(case)
    names = ("INF_NAN_MODE_ENABLE", "INF_NAN_MODE_FORCE_DISABLE")
    refs = (f"{TORCH_NPU_VARIABLES}/op_execution/INF_NAN_MODE_ENABLE.md",)
    if off and not forced and (family is None or family.inf_nan_only):
        yield (warning if family is None else error)(
            "INF_NAN_MODE_ENABLE=0 is refused on A2 and A3",
            observed=f"{show_values(values, *names)} on "
            f"{family.title if family else 'an unknown chip'}",
            required="unset",
            because="torch_npu stops when it starts the device.",
            remedy=unset(*names),
            refs=refs,
        )
    elif forced and values.get("HCCL_DETERMINISTIC", "").lower() == "strict":
        yield warning(
            "HCCL_DETERMINISTIC=strict needs inf and nan, which are forced off",
            observed=show_values(values, "HCCL_DETERMINISTIC", *names),
            required="INF_NAN_MODE_FORCE_DISABLE unset",
            because="Strict order of sums is not available in saturation mode.",
            remedy=unset(*names),
            refs=(f"{HCCL_VARIABLES}/HCCL_DETERMINISTIC.md",),
        )


@check("variables-agree", "torch_npu settings do not contradict each other", scope="launch")
def variables_agree(case: Case) -> Iterator[Finding]:
    """Two names for one thing, or a setting that another one makes void.

    HCCL_ASYNC_ERROR_HANDLING is the old name of TORCH_HCCL_ASYNC_ERROR_HANDLING, and the new one
    wins. ASCEND_LAUNCH_BLOCKING=1 makes TASK_QUEUE_ENABLE void.
    """
    values = settings(case)
    names = ("TORCH_HCCL_ASYNC_ERROR_HANDLING", "HCCL_ASYNC_ERROR_HANDLING")
    if all(name in values for name in names) and values[names[0]] != values[names[1]]:
        yield warning(
            "Two names of one setting have different values",
            observed=show_values(values, *names),
            required=f"{names[0]} alone",
            because="torch_npu reads the new name first; old versions know the old one only.",
            remedy=Remedy(summary="Drop the old name", commands=(f"unset {names[1]}",)),
            refs=(_OPTIONS,),
        )
    if values.get("ASCEND_LAUNCH_BLOCKING") == "1" and values.get("TASK_QUEUE_ENABLE") in {
        "1",
        "2",
    }:
        yield note(
            "TASK_QUEUE_ENABLE has no effect while ASCEND_LAUNCH_BLOCKING=1",
            observed=show_values(values, "ASCEND_LAUNCH_BLOCKING", "TASK_QUEUE_ENABLE"),
            refs=(f"{TORCH_NPU_VARIABLES}/op_execution/TASK_QUEUE_ENABLE.md",),
        )


@check("max-connections", "CUDA_DEVICE_MAX_CONNECTIONS suits this run", scope="launch")
def max_connections(case: Case) -> Iterator[Finding]:
    """CUDA_DEVICE_MAX_CONNECTIONS does nothing on an NPU, but Megatron-LM and MindSpeed check it.

    Tensor or context parallelism needs 1. FSDP2, Megatron FSDP and MindSpeed's custom_fsdp refuse
    1. With --overlap-moe-expert-parallel-comm both are accepted.
    """
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
    yield error(
        wrong,
        observed=f"{show_values({_CONNECTIONS: value}, _CONNECTIONS)}; {seen}",
        required=required,
        because="Megatron-LM asserts it when it reads its arguments.",
        remedy=Remedy(summary=f"Set {required}"),
        refs=(MEGATRON_OPTIONS, "Ascend/MindSpeed@028de58c:docs/zh/features/custom_fsdp.md"),
        location=at(case, _CONNECTIONS),
    )
