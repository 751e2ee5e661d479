"""What the framework of a launch says of it, where `lint --exact` asked."""

from collections.abc import Iterator

from ascend_doctor.facts import FrameworkRefusal, Launch
from ascend_doctor.judging import Case, Findings, NotApplicable, Texts

TEXTS = Texts("framework")

_NOT_ASKED = "the framework was not asked; lint --exact asks it"


def _answers(case: Case, outcome: str) -> list[FrameworkRefusal]:
    answers = case.need(Launch).refusals
    if answers is None:
        raise NotApplicable(_NOT_ASKED)
    return [each for each in answers if each.outcome == outcome]


@TEXTS.check("run-framework-refuses")
def _run_framework_refuses(case: Case) -> Findings:
    for answer in _answers(case, "refused"):
        refs, shown, title = filter(None, [answer.source]), "", f"{answer.program} refuses it"
        if answer.option:
            title = f"{answer.program} refuses {answer.option}"
            shown = ", ".join([answer.option, *_others(answer)])
        code = f" ({answer.source}: {answer.code})" if answer.code else ""
        yield TEXTS.finding(
            "refuses",
            answer.location,
            refs=(*refs,),
            title=title,
            answer=answer,
            shown=shown,
            code=code,
        )


def _others(answer: FrameworkRefusal) -> Iterator[str]:
    for spot in answer.others:
        yield f"{spot.name} (line {spot.location.line})"


@TEXTS.check("run-framework-changes")
def _run_framework_changes(case: Case) -> Findings:
    for answer in _answers(case, "changed"):
        yield TEXTS.finding("changes", answer.location, answer=answer)


@TEXTS.check("run-framework-answers")
def _run_framework_answers(case: Case) -> Findings:
    for answer in _answers(case, "unjudged"):
        asked = answer.option or "the launch"
        yield TEXTS.finding("not-asked", answer.location, answer=answer, asked=asked)
