"""Mistakes that frameworks refuse, seeded into real launches: found at their lines with a stack."""

from pathlib import Path

import msgspec
import pytest

from ascend_doctor.commands.rehearsal import prepare
from ascend_doctor.findings import Finding
from ascend_doctor.linting.exact import ask, split_launches
from ascend_doctor.linting.inputs import LintInput, subjects
from ascend_doctor.linting.shellcheck import run_shellcheck
from ascend_doctor.simulator import machine as simulated
from tests.acceptance import clones, needs
from tests.linting.judged import CATALOG, judge_inputs, mistakes

SECONDS = 3000.0
MEGATRON = ("NVIDIA/Megatron-LM", "core_v0.12.1", "megatron")
SOURCES = {
    "mindspeed-llm": (
        MEGATRON,
        ("Ascend/MindSpeed", "028de58c"),
        ("Ascend/MindSpeed-LLM", "c77308a1"),
    ),
    "mindspeed-0.12.1": (MEGATRON, ("Ascend/MindSpeed", "028de58c")),
}


class Row(msgspec.Struct, frozen=True):
    path: str
    line: int
    kind: str
    old: str
    new: str


class Group(msgspec.Struct, frozen=True):
    stack: str
    repository: str
    commit: str
    files: tuple[Row, ...]


def groups() -> dict[str, Group]:
    content = msgspec.yaml.decode(Path(__file__).with_name("exact.yaml").read_bytes())
    rows = [msgspec.convert(each, Group) for each in content["launches"]]
    return {f"{each.stack} {each.repository}": each for each in rows}


def read(group: Group, row: Row, *, mistaken: bool) -> tuple[str, list[LintInput]]:
    text = clones.git(clones.clone(group.repository), "show", f"{group.commit}:{row.path}").decode()
    lines = text.split("\n")
    if mistaken:
        lines[row.line - 1] = lines[row.line - 1].replace(row.old, row.new)
    inputs = subjects(row.path, "\n".join(lines).encode(), CATALOG, run_shellcheck)
    return row.path, list(inputs)


def report(inputs: list[LintInput]) -> list[Finding]:
    return mistakes(judge_inputs(inputs))


def lines_of(finding: Finding) -> set[int]:
    return {finding.location.line} if finding.location is not None else set()


@pytest.mark.parametrize("stack", SOURCES)
def test_frameworks_refuse_at_the_line(stack: str, tmp_path: Path) -> None:
    (group,) = (each for each in groups().values() if each.stack == stack)
    python = needs.first_path("training-python")
    env = dict(prepare(None, python, simulated("a2-8"), ()).env)
    folders = [clones.unpack(tmp_path / each[0], *each) for each in SOURCES[stack]]
    env["PYTHONPATH"] = ":".join([*map(str, reversed(folders)), env["PYTHONPATH"]])
    rows = group.files[::2]  # each launch takes seconds
    read_all = [read(group, row, mistaken=m) for m in (True, False) for row in rows]
    flat = [each for _, inputs in read_all for each in inputs]
    asked = iter(ask(flat, split_launches(flat), python, env, tmp_path, SECONDS))
    answers = [[next(asked) for _ in inputs] for _, inputs in read_all]
    hits = false = 0
    for number in range(len(read_all)):
        reported = report(answers[number])
        if number < len(rows):
            row = rows[number]
            hits += any(row.line in lines_of(each) for each in reported)
        else:
            wrong = [each for each in reported if each.check.startswith("run-framework")]
            false += len(wrong)
    print(stack, "hits", hits, "false", false)  # noqa: T201
    assert hits >= 0.8 * len(rows)


# docs/records/lint.md has what was found at first sight.
def test_mistakes_are_found_without_a_stack() -> None:
    hits = count = 0
    for group in groups().values():
        count += len(group.files)
        for row in group.files:
            _, healthy = read(group, row, mistaken=False)
            before = {(each.check, each.title) for each in report(healthy)}
            _, inputs = read(group, row, mistaken=True)
            hits += any(
                row.line in lines_of(each) and (each.check, each.title) not in before
                for each in report(inputs)
            )
    assert hits >= 0.75 * count
