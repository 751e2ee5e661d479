"""Mistakes that frameworks refuse, seeded into real launches: found at their lines with a stack."""

import os
import time
from pathlib import Path

import msgspec
import pytest

from ascend_doctor.checks import all_checks
from ascend_doctor.commands.rehearsal import prepare
from ascend_doctor.findings import Finding, Level
from ascend_doctor.linting.exact import ask, split_launches
from ascend_doctor.linting.inputs import LintInput, subjects
from ascend_doctor.linting.launch_checks import findings, machine, suits, unique
from ascend_doctor.linting.shellcheck import run_shellcheck
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.simulator import machine as simulated
from tests.acceptance import clones
from tests.acceptance.linting.exact_seeding import mistake

CATALOG = Catalog()
CHECKS = tuple(check for check in all_checks() if suits(check))
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


class Group(msgspec.Struct, frozen=True):
    stack: str
    repository: str
    commit: str
    files: tuple[Row, ...]


def groups() -> dict[str, Group]:
    content = msgspec.yaml.decode(Path(__file__).with_name("exact.yaml").read_bytes())
    return {each["stack"]: msgspec.convert(each, Group) for each in content["launches"]}


def read(group: Group, row: Row, *, mistaken: bool) -> tuple[str, list[LintInput]]:
    text = clones.git(clones.clone(group.repository), "show", f"{group.commit}:{row.path}").decode()
    lines = text.split("\n")
    if mistaken:
        lines[row.line - 1] = mistake(group.stack, row.kind, lines[row.line - 1])
    inputs = subjects(row.path, "\n".join(lines).encode(), CATALOG, run_shellcheck)
    return row.path, list(inputs)


def report(inputs: list[LintInput]) -> list[Finding]:
    judged = (
        each for subject in inputs for each in findings(subject, machine("", ""), CATALOG, CHECKS)
    )
    return [each for each in unique(tuple(judged)) if each.level in {Level.ERROR, Level.WARNING}]


def lines_of(finding: Finding) -> set[int]:
    return {finding.location.line} if finding.location is not None else set()


@pytest.mark.parametrize("stack", SOURCES)
def test_frameworks_refuse_at_the_line(stack: str, tmp_path: Path) -> None:
    group = groups()[stack]
    python = os.environ["ASCEND_DOCTOR_TEST_JOBS_PYTHON"]
    env = dict(prepare(None, python, simulated("a2-8"), ()).env)
    folders = [clones.unpack(tmp_path / each[0], *each) for each in SOURCES[stack]]
    env["PYTHONPATH"] = ":".join([*map(str, reversed(folders)), env["PYTHONPATH"]])
    read_all = [read(group, row, mistaken=m) for m in (True, False) for row in group.files]
    flat = [each for _, inputs in read_all for each in inputs]
    began = time.monotonic()
    asked = iter(ask(flat, split_launches(flat), python, env, tmp_path, SECONDS))
    print(stack, time.monotonic() - began)  # noqa: T201
    answers = [[next(asked) for _ in inputs] for _, inputs in read_all]
    hits = missed = false = plain = 0
    for number, (path, inputs) in enumerate(read_all):
        reported, before = report(answers[number]), report(inputs)
        if number < len(group.files):
            row = group.files[number]
            hit = any(row.line in lines_of(each) for each in reported)
            hits, missed = hits + hit, missed + (not hit)
            plain += any(row.line in lines_of(each) for each in before)
            if not hit:
                print("missed", path, row.line, row.kind)  # noqa: T201
                for asked_ in answers[number]:
                    for answer in (asked_.launch and asked_.launch.refusals) or ():
                        print("   ", answer.outcome, answer.option, answer.text)  # noqa: T201
        else:
            for each in reported:
                if each.check.startswith("run-framework"):
                    false += 1
                    print("false", path, each.location, each.title, each.because[:300])  # noqa: T201
    print(stack, "found", hits, "missed", missed, "plain", plain, "false", false)  # noqa: T201
    assert hits >= 0.85 * len(group.files)
