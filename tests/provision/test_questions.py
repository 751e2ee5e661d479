"""Questions to the solver from public threads, with answers that were written down before."""

from pathlib import Path
from typing import Any

import click
import pytest

from ascend_doctor.commands.matrix_solve import facts_on, lines_on
from ascend_doctor.errors import DataError
from ascend_doctor.machine.parsing import read_yaml
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.queries import choose, why
from ascend_doctor.provision.conflict import refusal
from ascend_doctor.provision.request_ranges import StackRequest
from ascend_doctor.provision.set_choice import SetSearch
from ascend_doctor.provision.solve import Solution, SolveQuery, solve
from tests.knobs import draw

CATALOG = Catalog()
QUESTIONS = read_yaml(Path(__file__).with_name("questions.yaml"))
# The whole table takes most of a minute.
ASKED = draw(range(len(QUESTIONS)), range(0, len(QUESTIONS), 8), 30)
# Answers that differ from the table yet, and what they are instead.
WRONG = {33: "torch-npu 2.5.1.post1, which vllm-ascend 0.9.1 of the same image pins"}


@pytest.mark.slow
@pytest.mark.parametrize("number", ASKED)
def test_the_solver_answers_as_the_sources_do(number: int, request: pytest.FixtureRequest) -> None:
    if number in WRONG:
        request.applymarker(pytest.mark.xfail(strict=True, reason=WRONG[number]))
    question = QUESTIONS[number]
    assert wrong(question) == "", question["source"]


def wrong(question: dict[str, Any]) -> str:
    ask = question["ask"]
    if "show" in ask:
        return _show(question)
    if "why" in ask:
        return _bind(question)
    request = StackRequest(
        megatron=ask["megatron"], framework=ask.get("framework"), additions=(*ask.get("with", ()),)
    )
    facts = [f"{name}={value}" for name, value in ask.get("on", {}).items()]
    try:
        machine = {"soc": CATALOG.usual_family.id, **facts_on(CATALOG, facts)}
        ranges = request.ranges(CATALOG) | lines_on(CATALOG, facts)
    except (click.UsageError, DataError) as error:
        return "" if question.get("usage", "?") in str(error) else f"usage: {error}"
    return _solve(question, SolveQuery(wishes=ranges, machine=machine), request)


def _solve(question: dict[str, Any], asked: SolveQuery, request: StackRequest) -> str:
    answer = SetSearch(CATALOG, asked, request, solve).build()
    solution = answer and answer.solution
    if "usage" in question or (solution and "refused" in question):
        return f"taken: {solution}"
    if solution:
        return _answer(question, solution)
    refused = refusal(CATALOG, asked)
    lacking = [
        name for name in question.get("refused", "?") if name not in " ".join(refused.reasons)
    ]
    if lacking:
        return f"reasons lack {lacking}: {refused}"
    surplus = len(refused.reasons) > question.get("most", len(refused.reasons))
    return f"more than {question['most']} reasons: {refused}" if surplus else ""


def _answer(question: dict[str, Any], solution: Solution) -> str:
    for name, versions in question.get("versions", {}).items():
        allowed = versions if isinstance(versions, list) else [versions]
        if solution.versions.get(name) not in allowed:
            return f"{name} {solution.versions.get(name)}, not {versions}"
    doubts = [doubt.need.component for doubt in solution.doubts]
    if question.get("doubts") == "none":
        return f"doubts about {doubts}" if doubts else ""
    lacking = [name for name in question.get("doubts", []) if name not in doubts]
    return f"no doubt about {lacking}, only {doubts}" if lacking else ""


def _show(question: dict[str, Any]) -> str:
    try:
        versions = [row.version for row in choose(CATALOG, question["ask"]["show"]).releases]
    except DataError as error:
        return "" if question.get("usage", "?") in str(error) else str(error)
    return "" if set(question.get("row", ["?"])) <= set(versions) else f"rows {versions}"


def _bind(question: dict[str, Any]) -> str:
    part, other = question["ask"]["why"]
    lines = [bond.text for bond in why(CATALOG, choose(CATALOG, part), choose(CATALOG, other))]
    return "" if any(question["says"] in line for line in lines) else f"rows say {lines}"
