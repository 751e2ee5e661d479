"""Options of a launch that need, exclude or divide each other: the checks of the rules."""

from ascend_doctor.checks.launch.option_names import is_of_fork
from ascend_doctor.checks.launch.options import number, options
from ascend_doctor.checks.launch.rules import judge_rules
from ascend_doctor.facts import Launch
from ascend_doctor.judging import Findings, NotApplicable, Texts, Unresolved
from ascend_doctor.judging.judge import Case, Judgement

TEXTS, _LAUNCHES = Texts("relations"), Texts("launches")
# The validation that forks have changed; the rules of its oldest parts are theirs, too.
_NOT_OF_FORKS, _OF_MODEL = "run-arguments", "run-model-sizes"
_SIZES = ("tensor", "pipeline", "expert")


def _judge_by_rules(identity: str) -> Judgement:
    def judge(case: Case) -> Findings:
        options(case)
        launch = case.need(Launch)
        if identity == _OF_MODEL:
            if not launch.model_name:
                raise NotApplicable("the launch command names no model")
            if max(number(case, f"{name}_model_parallel_size", 1) for name in _SIZES) == 1:
                return
            if not launch.model_sizes:
                raise Unresolved(f"heads, layers and experts of {launch.model_name}")
        of_fork = identity == _NOT_OF_FORKS and bool(launch.program) and is_of_fork(case)
        yield from judge_rules(case, identity, of_fork=of_fork)

    return judge


for texts, names in ((TEXTS, TEXTS.checks), (_LAUNCHES, (_OF_MODEL, "lora-etp"))):
    for each in names:
        texts.check(each)(_judge_by_rules(each))
