"""What the framework of a launch says of it, where `lint --exact` asked."""

from collections.abc import Iterator

from ascend_doctor.errors import NotApplicable
from ascend_doctor.facts import FrameworkRefusal, Launch
from ascend_doctor.findings import Finding, Remedy
from ascend_doctor.judging.judge import Case, check, error, unknown, warning

_NOT_ASKED = "the framework was not asked; lint --exact asks it"


def _answers(case: Case, outcome: str) -> list[FrameworkRefusal]:
    answers = case.need(Launch).refusals
    if answers is None:
        raise NotApplicable(_NOT_ASKED)
    return [each for each in answers if each.outcome == outcome]


@check("run-framework-refuses", "The framework takes the launch", scope="launch")
def run_framework_refuses(case: Case) -> Iterator[Finding]:
    """`lint --exact` asks the framework's own parser and validation, with simulated NPUs.

    It goes as far as arguments, configuration and parallel groups, for the ranks that the launch
    states; no model and no data are made. Each refusal is reported at the line of the value. After
    a refusal that value is replaced by one that passes, so all refusals are found.
    """
    for answer in _answers(case, "refused"):
        yield error(
            f"{answer.program} refuses {answer.option}"
            if answer.option
            else f"{answer.program} refuses it",
            observed=", ".join([answer.option, *_others(answer)]) if answer.option else "",
            required="a launch that it takes",
            because=f"{answer.text} ({answer.source}: {answer.code})"
            if answer.code
            else answer.text,
            remedy=Remedy(summary="Change the value, or one that it depends on"),
            refs=(answer.source,) if answer.source else (),
            location=answer.location,
        )


def _others(answer: FrameworkRefusal) -> Iterator[str]:
    for spot in answer.others:
        yield f"{spot.name} (line {spot.location.line})"


@check("run-framework-changes", "The framework uses the values of the launch", scope="launch")
def run_framework_changes(case: Case) -> Iterator[Finding]:
    """Some values are replaced by the framework without an error.

    Megatron-LM turns sequence parallelism off with a tensor parallel size of 1, for example.
    """
    for answer in _answers(case, "changed"):
        yield warning(
            f"{answer.program} replaces {answer.option}",
            observed=answer.option,
            required=answer.text,
            because="Its validation uses another value than the launch gives.",
            remedy=Remedy(summary=f"Remove {answer.option}, or change what it depends on"),
            location=answer.location,
        )


@check("run-framework-answers", "The framework could be asked about the launch", scope="launch")
def run_framework_answers(case: Case) -> Iterator[Finding]:
    """The framework has to be installed, and importable, in the stack that is asked.

    Otherwise nothing that only the framework knows is judged.
    """
    for answer in _answers(case, "unjudged"):
        yield unknown(
            f"Could not ask {answer.program} about {answer.option or 'the launch'}",
            observed=answer.text,
            because="What only the framework knows is not judged.",
            remedy="Name another stack with --python or --prefix, or try ascend-doctor rehearse",
            location=answer.location,
        )
