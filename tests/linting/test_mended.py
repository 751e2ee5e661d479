"""--fix over launch files with seeded mistakes, where a variable names the clones."""

from __future__ import annotations

import subprocess
from collections import Counter

from ascend_doctor.linting.fixing import Judgement, mend
from ascend_doctor.linting.inputs import subjects
from ascend_doctor.linting.launch_checks import findings, machine
from ascend_doctor.linting.shellcheck import run_shellcheck
from tests.linting.seeding import Mistake, mistakes, prepared
from tests.linting.test_labelled import CATALOG, CHECKS, Label, launches, reports

# Of 100; the figures of several seeds are told in docs/lint.md.
LEAST_MENDED = 60


def fixed(label: Label, text: str) -> str:
    base = machine(label.megatron, "")

    def judge(content: bytes) -> Judgement:
        inputs = subjects(label.path, content, CATALOG, run_shellcheck)
        found = (each for one in inputs for each in findings(one, base, CATALOG, CHECKS))
        scripts = (each.shell_script for each in inputs if each.shell_script is not None)
        return Judgement(tuple(mark for one in scripts for mark in one.marks), tuple(found))

    return mend(text.encode(), label.path, judge).decode()


def is_read_by_bash(text: str) -> bool:
    done = subprocess.run(
        ["bash", "-n"], check=False, input=text.encode(), capture_output=True, timeout=20
    )
    return done.returncode == 0


def changed(before: str, after: str) -> set[int]:
    pairs = zip(before.split("\n"), after.split("\n"), strict=True)
    return {number for number, (old, new) in enumerate(pairs, 1) if old != new}


def outcome(label: Label, text: str, mistake: Mistake) -> str:
    """What --fix makes of a mistake: mended, restored as it was, left, or broken."""
    result = fixed(label, mistake.script)
    lines = changed(mistake.script, result)
    if lines - {mistake.line} - changed(text, fixed(label, text)):
        return "broken"
    if is_read_by_bash(text) and mistake.line in lines and not is_read_by_bash(result):
        return "broken"
    if mistake.line not in lines:
        return "left"
    if result.split("\n")[mistake.line - 1].split() == text.split("\n")[mistake.line - 1].split():
        return "restored"
    known = {(each.check, each.title) for each in reports(label, text)}
    new = [each for each in reports(label, result) if (each.check, each.title) not in known]
    at = [each for each in new if each.location and each.location.line == mistake.line]
    return "broken" if at else "mended"


def test_most_seeded_mistakes_are_mended_and_nothing_is_broken() -> None:
    files = launches("unread2.yaml")
    texts = [prepared(text) for _, text in files]
    count: Counter[str] = Counter()
    for number, mistake in mistakes(texts, 20261123, 100):
        result = outcome(files[number][0], texts[number], mistake)
        count[result] += 1
        if result != "restored":
            line = mistake.script.split("\n")[mistake.line - 1].strip()
            print(result, mistake.kind, "|", files[number][0].path, mistake.line, line[:70])  # noqa: T201
    print(dict(count))  # noqa: T201
    assert count["broken"] == 0
    assert count["mended"] + count["restored"] >= LEAST_MENDED
