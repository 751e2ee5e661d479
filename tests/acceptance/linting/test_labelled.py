"""Launch files of public repositories against their labels."""

from pathlib import Path

import msgspec

from ascend_doctor.findings import Finding
from ascend_doctor.linting.shellcheck import run_shellcheck
from tests.acceptance.clones import clone, git
from tests.acceptance.linting.seeding import mistakes, prepare
from tests.knobs import seed
from tests.linting import judged

SEED = seed(20261122)
# Of 100; docs/records/lint.md has the rest.
LEAST_FOUND = 85


class Spot(msgspec.Struct, frozen=True):
    """A line, and what is wrong or right there."""

    line: int
    what: str


class Label(msgspec.Struct, frozen=True):
    """A file, and what is right to say of it; an empty ``megatron`` is one that nobody knows."""

    repository: str
    commit: str
    path: str
    megatron: str = ""
    mistakes: tuple[Spot, ...] = ()
    right: tuple[Spot, ...] = ()


def labels() -> tuple[Label, ...]:
    """Files in the order of labels.yaml, which has above them what those of a repository share."""
    content = msgspec.yaml.decode(Path(__file__).with_name("labels.yaml").read_bytes())
    rows = [{**group, **file} for group in content["launches"] for file in group.pop("files")]
    return msgspec.convert(rows, tuple[Label, ...])


def content(label: Label) -> str:
    return git(clone(label.repository), "show", f"{label.commit}:{label.path}").decode()


def reports(label: Label, text: str) -> list[Finding]:
    findings = judged.judge_text(label.path, text, label.megatron, shellcheck=run_shellcheck)
    return judged.mistakes(findings)


def launches() -> list[tuple[Label, str]]:
    """The files that mistakes are put into."""
    return [(label, content(label)) for label in labels()]


def test_false_reports_are_few() -> None:
    false: list[str] = []
    total = 0
    for label in labels():
        lines = {spot.line for spot in (*label.mistakes, *label.right)}
        for finding in reports(label, content(label)):
            total += 1
            if finding.location is None or finding.location.line not in lines:
                false.append(f"{label.path}:{finding.location}: {finding.check}: {finding.title}")
    print(total, len(false), *false, sep="\n")  # noqa: T201
    assert len(false) <= 0.05 * total


def test_seeded_mistakes_are_found_at_their_lines() -> None:
    files = launches()
    missed = []
    for number, mistake in mistakes([prepare(text) for _, text in files], SEED, 100):
        label = files[number][0]
        spots = (each.location for each in reports(label, mistake.script))
        if mistake.line not in {spot.line for spot in spots if spot is not None}:
            missed.append(f"{label.path}:{mistake.line}: {mistake.kind}")
    print(*missed, sep="\n")  # noqa: T201
    assert len(missed) <= 100 - LEAST_FOUND
