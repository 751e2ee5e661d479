"""A launch that trains adapters (LoRA), and what they are of."""

from collections.abc import Iterator

from ascend_doctor.checks.launch.options import (
    at,
    behaviour_refs,
    number,
    options,
    part_sizes,
    version,
)
from ascend_doctor.errors import NotApplicable, Unknown, Unresolved
from ascend_doctor.facts import UNTOLD, Launch
from ascend_doctor.findings import Finding, Remedy
from ascend_doctor.judging.judge import Case, check, error
from ascend_doctor.judging.matrix_fit import releases_for
from ascend_doctor.judging.packages import distribution, pip
from ascend_doctor.judging.version_compare import behaviour
from ascend_doctor.matrix.schema import urls

# Names of target modules that include expert layers, as ms-swift spells them.
_OF_EXPERTS = ("all-linear", "linear_fc1", "linear_fc2")
_REDUCED = "npu-expert-lora-reduced"


def _trains_lora(case: Case) -> bool:
    """Raises Unresolved if only the run shows it."""
    launch_options = options(case)
    kinds = {launch_options.get("train_type", ""), launch_options.get("tuner_type", "")}
    if "lora" in kinds:
        return True
    if any(UNTOLD in kind for kind in kinds):
        raise Unresolved("whether it trains LoRA is known when the launch runs")
    return False


@check("lora-etp", "LoRA on experts does not use expert tensor parallelism", scope="launch")
def lora_etp(case: Case) -> Iterator[Finding]:
    """LoRA on expert layers needs an expert tensor parallel size of 1.

    mcore-bridge, which ms-swift and twinkle train with, raises otherwise. Give the launch command
    behind `--` to have it judged.
    """
    options(case)
    size = number(case, "expert_tensor_parallel_size", 1)
    if size > 1 and _trains_lora(case):
        yield error(
            f"LoRA with expert tensor parallel size {size} is refused",
            observed=f"LoRA, expert_tensor_parallel_size {size}",
            required="expert_tensor_parallel_size 1",
            because="mcore-bridge raises for LoRA on expert layers when the size is above 1.",
            remedy=Remedy(summary="Set the size to 1, which is the default of ms-swift"),
            refs=behaviour_refs(case, "mcore-bridge", "lora-etp"),
            location=at(case, "expert_tensor_parallel_size"),
        )


@check("run-expert-lora", "Each expert's adapter keeps its own gradient", scope="launch")
def run_expert_lora(case: Case) -> Iterator[Finding]:
    """mcore-bridge 1.5.0 to 1.6.4 adds up the gradients of different experts' adapters on NPUs.

    It does not mark them as experts', so that Megatron-core reduces them over all data parallel
    ranks. These hold the same experts only where the expert parallel size divides the tensor
    parallel size. Nothing fails: the losses are wrong.
    """
    launch_options, sizes = options(case), part_sizes(case)
    if case.need(Launch).program not in {"megatron-swift", ""}:
        raise NotApplicable("the launch command does not start ms-swift with Megatron")
    if sizes["TP"] % sizes["EP"] == 0 or not _trains_lora(case):
        return
    targets = launch_options.get("target_modules", _OF_EXPERTS[0])
    bridge = distribution(case, "mcore-bridge")
    row = behaviour(case, "mcore-bridge", _REDUCED, bridge.version)
    if row is None:
        return
    if not any(name in targets for name in _OF_EXPERTS):
        # Only the first word of a list is read.
        raise Unknown(f"whether experts have adapters: their target modules begin with {targets}")
    yield error(
        f"mcore-bridge {bridge.version} mixes the gradients of experts' adapters",
        observed=f"LoRA of {targets}, expert_model_parallel_size {sizes['EP']}, "
        f"tensor_model_parallel_size {sizes['TP']}",
        required="mcore-bridge 1.6.5 or newer, or 1.4.3 or older",
        because=row.text,
        remedy=_install_another(case),
        refs=urls(row.sources),
        location=at(case, "expert_model_parallel_size", "target_modules"),
    )


def _install_another(case: Case) -> Remedy:
    megatron = version(case)
    fitting = (
        release
        for release in releases_for(case, "mcore-bridge", "megatron-core", megatron)
        if behaviour(case, "mcore-bridge", _REDUCED, release) is None
    )
    if megatron and (release := next(fitting, "")):
        command = pip(case, "install", "--no-deps", f"mcore-bridge=={release}")
        return Remedy(summary="Install the newest that keeps them apart", commands=(command,))
    return Remedy(summary="Give the tensor parallel size a multiple of the expert parallel size")
