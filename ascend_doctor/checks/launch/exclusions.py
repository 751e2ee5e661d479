"""Options of a launch that need or exclude each other."""

from collections.abc import Iterator

from ascend_doctor.checks.launch.options import (
    ARGUMENTS,
    CONFIG,
    VALIDATED,
    at,
    flag,
    is_given,
    megatron_options,
    options,
    part_sizes,
    version,
)
from ascend_doctor.errors import NotApplicable, Unresolved
from ascend_doctor.facts import UNTOLD, Launch
from ascend_doctor.findings import Finding
from ascend_doctor.judging.judge import Case, check, error, warning
from ascend_doctor.matrix.versions import satisfies

_MOE = "NVIDIA/Megatron-LM@core_v0.15.3:megatron/core/transformer/moe/moe_layer.py"


@check(
    "run-moe-needs-sp",
    "Experts with tensor parallelism train with sequence parallelism",
    scope="launch",
)
def run_moe_needs_sp(case: Case) -> Iterator[Finding]:
    """Megatron-core 0.12 to 0.16 refuse to train experts with TP above 1 without it.

    The layer of experts raises ValueError in its first forward pass.
    """
    launch_options, size = megatron_options(case), part_sizes(case)["TP"]
    launch = case.need(Launch)
    if launch.program not in VALIDATED or not is_given(case, "num_experts") or size == 1:
        return
    if "deepspeed" in launch.flags:
        raise NotApplicable("the experts are those of DeepSpeed")
    if not flag(case, "sequence_parallel") and not is_given(case, "tp_2d"):
        yield error(
            "Experts with tensor parallelism need --sequence-parallel",
            observed=f"num_experts {launch_options['num_experts']}, "
            f"tensor_model_parallel_size {size}",
            required="--sequence-parallel",
            because="The layer raises ValueError in training.",
            refs=(_MOE,),
            location=at(case, "num_experts", "tensor_model_parallel_size"),
        )


@check("run-recompute", "Recomputation options fit together", scope="launch")
def run_recompute(case: Case) -> Iterator[Finding]:
    """Full recomputation needs a method and a number of layers.

    Selective recomputation takes neither.
    """
    launch_options = megatron_options(case)
    kind, method = (
        launch_options.get("recompute_granularity"),
        launch_options.get("recompute_method"),
    )
    if not is_given(case, "recompute_granularity") or kind is None:
        return
    if UNTOLD in kind + (method or ""):
        raise Unresolved("how it recomputes is known when the launch runs")
    if kind not in {"full", "selective", "none", "null"}:
        yield error(
            f"There is no recompute granularity {kind!r}",
            observed=f"recompute_granularity {kind}",
            required="full or selective",
            refs=(ARGUMENTS,),
            location=at(case, "recompute_granularity"),
        )
    elif kind == "full" and not is_given(case, "recompute_method"):
        yield error(
            "Full recomputation without a method",
            observed="recompute_granularity full",
            required="recompute_method uniform or block, and recompute_num_layers",
            refs=(CONFIG,),
            location=at(case, "recompute_granularity"),
        )
    elif kind == "selective" and method not in {None, "none", "null"}:
        yield error(
            "Selective recomputation takes no method",
            observed=f"recompute_granularity selective, recompute_method {method}",
            required="no recompute_method",
            refs=(f"{ARGUMENTS}:915",),
            location=at(case, "recompute_method"),
        )


@check("verl-on-npu", "verl's configuration suits NPUs", scope="launch")
def verl_on_npu(case: Case) -> Iterator[Finding]:
    """Verl's device, checkpoint engine and router replay on NPUs.

    The HCCL checkpoint engine is registered as nccl. Router replay needs symbols that megatron-core
    has from 0.14 on. Newer releases alone overrule a device other than npu, with a warning.
    """
    launch_options = options(case)
    if case.need(Launch).program not in {"verl", ""}:
        raise NotApplicable("the launch command does not start verl")
    if launch_options.get("checkpoint_engine.backend") == "hccl":
        yield error(
            "verl has no checkpoint engine that is called hccl",
            observed="checkpoint_engine.backend hccl",
            required="nccl, under which name the HCCL engine is registered on NPUs",
            refs=(
                "verl-project/verl@1dda039b:verl/checkpoint_engine/hccl_checkpoint_engine.py:103",
            ),
            location=at(case, "checkpoint_engine.backend"),
        )
    if launch_options.get("trainer.device") in {"cuda", "gpu"}:
        yield warning(
            f"verl is told to train on {launch_options['trainer.device']}",
            observed=f"trainer.device {launch_options['trainer.device']}",
            required="trainer.device=npu",
            because="Newer releases take the NPU with a warning; older ones stop.",
            refs=("verl-project/verl@1dda039b:verl/utils/device.py:150",),
            location=at(case, "trainer.device"),
        )
    replay, newest = launch_options.get("router_replay.mode", ""), version(case)
    if replay in {"R2", "R3"} and newest and not satisfies("pep440", newest, ">=0.14"):
        yield error(
            f"Router replay needs megatron-core 0.14; this is {newest}",
            observed=f"router_replay.mode {replay}",
            required="megatron-core 0.14 or newer, or no replay",
            because="verl prints that NPUs do not support it, and trains without.",
            refs=("verl-project/verl@main:verl/utils/megatron/router_replay_patch.py",),
            location=at(case, "router_replay.mode"),
        )
