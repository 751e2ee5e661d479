"""The model that a launch names, against the parallel sizes of the launch."""

from ascend_doctor.checks.launch.options import number, options
from ascend_doctor.checks.launch.rules import judge_rules
from ascend_doctor.facts import Launch
from ascend_doctor.judging import Case, Findings, NotApplicable, Texts, Unresolved

TEXTS = Texts("launches")

_SIZES = ("tensor", "pipeline", "expert")


@TEXTS.check("run-model-sizes")
def _run_model_sizes(case: Case) -> Findings:
    options(case)
    launch = case.need(Launch)
    if not launch.model_name:
        raise NotApplicable("the launch command names no model")
    if max(number(case, f"{name}_model_parallel_size", 1) for name in _SIZES) == 1:
        return
    if not launch.model_sizes:
        raise Unresolved(f"heads, layers and experts of {launch.model_name}")
    yield from judge_rules(case, "run-model-sizes")
