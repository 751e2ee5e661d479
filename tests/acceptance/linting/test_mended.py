"""--fix over launch files with seeded mistakes."""

from collections import Counter
from pathlib import Path

from ascend_doctor.linting.fixing import Judgement, mend
from ascend_doctor.linting.inputs import subjects
from ascend_doctor.linting.shellcheck import run_shellcheck
from tests.acceptance.linting.seeding import Mistake, mistakes, prepare
from tests.acceptance.linting.started import can_be_alone, starts
from tests.acceptance.linting.test_labelled import Label, launches, reports
from tests.knobs import seed
from tests.linting.judged import CATALOG, judge_inputs
from tests.programs import run_bytes

SEED = seed(20261203)
# Of 100; docs/records/lint.md has the figures of several seeds.
LEAST_MENDED = 60
LEAST_STARTED = 10


def fix_script(label: Label, text: str) -> str:
    def judge(content: bytes) -> Judgement:
        inputs = subjects(label.path, content, CATALOG, run_shellcheck)
        judged = judge_inputs(inputs, label.megatron)
        scripts = (each.shell_script for each in inputs if each.shell_script is not None)
        return Judgement(tuple(mark for script in scripts for mark in script.marks), tuple(judged))

    return mend(text.encode(), label.path, judge).decode()


def is_read_by_bash(text: str) -> bool:
    done = run_bytes(["bash", "-n"], check=False, input=text.encode())
    return done.returncode == 0


def find_changes(before: str, after: str) -> set[int]:
    pairs = zip(before.split("\n"), after.split("\n"), strict=True)
    return {number for number, (old, new) in enumerate(pairs, 1) if old != new}


def outcome(label: Label, text: str, mistake: Mistake, result: str) -> str:
    """What --fix makes of a mistake: mended, restored as it was, left, or broken."""
    lines = find_changes(mistake.script, result)
    if lines - {mistake.line} - find_changes(text, fix_script(label, text)):
        return "broken"
    if is_read_by_bash(text) and mistake.line in lines and not is_read_by_bash(result):
        return "broken"
    if mistake.line not in lines:
        return "left"
    if result.split("\n")[mistake.line - 1].split() == text.split("\n")[mistake.line - 1].split():
        return "restored"
    known = {(each.check, each.title) for each in reports(label, text)}
    new = {(each.check, each.title) for each in reports(label, result)} - known
    return "broken" if new else "mended"


def start(label: Label, text: str, mistake: Mistake, result: str, home: Path) -> str:
    """Whether what was mended starts what the script starts without the mistake."""

    def words(script: str) -> list[str]:
        # A value in double quotes is one word, which without them is several.
        return [call.replace("\\ ", " ") for call in starts(script, home)]

    right = words(text)
    if not right or words(text) != right:
        return "not to be told"
    assert words(result) in (right, words(fix_script(label, text))), mistake
    return "same" if words(mistake.script) == right else "differed"


def test_most_seeded_mistakes_are_mended_and_nothing_is_broken(tmp_path: Path) -> None:
    files = launches()
    texts = [prepare(text) for _, text in files]
    count: Counter[str] = Counter()
    started: Counter[str] = Counter()
    for number, mistake in mistakes(texts, SEED, 100):
        label, text = files[number][0], texts[number]
        result = fix_script(label, mistake.script)
        made = outcome(label, text, mistake, result)
        count[made] += 1
        if made != "restored":
            line = mistake.script.split("\n")[mistake.line - 1].strip()
            print(made, mistake.kind, "|", label.path, mistake.line, line[:70])  # noqa: T201
        if made in {"restored", "mended"} and can_be_alone():
            started[start(label, text, mistake, result, tmp_path / "start")] += 1
    print(dict(count), dict(started))  # noqa: T201
    assert count["broken"] == 0
    assert count["mended"] + count["restored"] >= LEAST_MENDED
    assert not can_be_alone() or started["differed"] >= LEAST_STARTED
