"""A launch that trains adapters (LoRA), and what they are of."""

from ascend_doctor.checks.launch.options import at, options, part_sizes, version
from ascend_doctor.facts import UNTOLD, Launch
from ascend_doctor.judging import Case, Findings, NotApplicable, Remedy, Texts, Unknown, Unresolved
from ascend_doctor.judging.matrix_fit import releases_for
from ascend_doctor.judging.packages import distribution, pip
from ascend_doctor.judging.version_compare import behaviour
from ascend_doctor.matrix.schema import urls

TEXTS = Texts("launches")

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


@TEXTS.check("run-expert-lora")
def _run_expert_lora(case: Case) -> Findings:
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
    where, refs = at(case, "expert_model_parallel_size", "target_modules"), urls(row.sources)
    fix = _install_another(case)
    yield TEXTS.finding(
        "mixes", where, remedy=fix, refs=refs, bridge=bridge, targets=targets, size=sizes, row=row
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
