"""Options of a launch that need, exclude or divide each other: the checks of the rules."""

from ascend_doctor.checks.launch.option_names import is_of_fork
from ascend_doctor.checks.launch.options import options
from ascend_doctor.checks.launch.rules import judge_rules
from ascend_doctor.judging import Findings, NotApplicable, Texts
from ascend_doctor.judging.judge import Case, Judgement

TEXTS = Texts("relations")
# The rules of a validation that forks have changed.
_NOT_OF_FORKS = "run-arguments"


def _judge_by_rules(identity: str) -> Judgement:
    def judge(case: Case) -> Findings:
        options(case)
        if identity == _NOT_OF_FORKS and is_of_fork(case):
            raise NotApplicable("several options are unknown, as in forks of Megatron-LM")
        yield from judge_rules(case, identity)

    return judge


for each in TEXTS.checks:
    TEXTS.check(each)(_judge_by_rules(each))
