"""What the framework of a launch says of it, where `lint --exact` asked."""

from __future__ import annotations

from collections.abc import Iterator

from ascend_doctor.errors import NotApplicable
from ascend_doctor.facts import FrameworkRefusal, Launch
from ascend_doctor.findings import Finding, Remedy
from ascend_doctor.judging.judge import Case, check, error, unknown, warning

_NOT_ASKED = "the framework was not asked; lint --exact asks it"


def _said(case: Case, outcome: str) -> list[FrameworkRefusal]:
    return [each for each in case.need(Launch).refusals if each.outcome == outcome]


@check("run-framework-refuses", "The framework takes the launch", scope="launch")
def run_framework_refuses(case: Case) -> Iterator[Finding]:
    """`lint --exact` asks the framework's own parser and validation, with simulated NPUs.

    It goes as far as arguments, configuration and parallel groups, for the ranks that the launch
    states; no model and no data are made. Each refusal is reported at the line of the value. After
    a refusal that value is replaced by one that passes, so all refusals are found.
    """
    if not case.need(Launch).refusals:
        raise NotApplicable(_NOT_ASKED)
    for said in _said(case, "refused"):
        yield error(
            f"{said.program} refuses {said.given}" if said.given else f"{said.program} refuses it",
            observed=", ".join([said.given, *_others(said)]) if said.given else "",
            required="a launch that it takes",
            because=f"{said.text} ({said.source}: {said.code})" if said.code else said.text,
            remedy=Remedy(summary="Change the value, or one that it depends on"),
            refs=(said.source,) if said.source else (),
            location=said.location,
        )


def _others(said: FrameworkRefusal) -> Iterator[str]:
    for spot in said.others:
        yield f"{spot.name} (line {spot.location.line})"


@check("run-framework-changes", "The framework uses the values of the launch", scope="launch")
def run_framework_changes(case: Case) -> Iterator[Finding]:
    """Some values are replaced by the framework without an error.

    Megatron-LM turns sequence parallelism off with a tensor parallel size of 1, for example.
    """
    for said in _said(case, "changed"):
        yield warning(
            f"{said.program} replaces {said.given}",
            observed=said.given,
            required=said.text,
            because="Its validation uses another value than the launch gives.",
            remedy=Remedy(summary=f"Remove {said.given}, or change what it depends on"),
            location=said.location,
        )


@check("run-framework-answers", "The framework could be asked about the launch", scope="launch")
def run_framework_answers(case: Case) -> Iterator[Finding]:
    """The framework has to be installed, and importable, in the stack that is asked.

    Otherwise nothing that only the framework knows is judged.
    """
    for said in _said(case, "unjudged"):
        yield unknown(
            f"Could not ask {said.program} about {said.given or 'the launch'}",
            observed=said.text,
            because="What only the framework knows is not judged.",
            remedy=Remedy(summary="Name the interpreter of the stack with --python or --prefix"),
            location=said.location,
        )
