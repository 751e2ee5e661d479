"""What lint advises on names, launchers and variables, against labels."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from ascend_doctor.findings import Finding, Level
from tests.conftest import Command
from tests.linting.judged import judge_text

LABELS = yaml.safe_load(Path(__file__).with_name("advice.yaml").read_text("utf-8"))


BASES = {**LABELS["bases"], "text": ""}
BASES["two"] = BASES["gpt"].replace(*LABELS["nodes"])


class AdviceRow(NamedTuple):
    """A launch by its base, its old and new text, and what a finding names."""

    base: str
    old: str
    new: str
    says: str
    more: dict[str, Any]


def rows(kind: str) -> list[AdviceRow]:
    return [
        AdviceRow(
            base, cells[0], cells[1], cells[2] if len(cells) > 2 else cells[0], {**dict(*cells[3:])}
        )
        for base, group in LABELS[kind].items()
        for cells in group
    ]


def script_of(row: AdviceRow) -> str:
    base = str(BASES[row.base])
    assert row.old in base
    script = base.replace(row.old, row.new, 1)
    for old, new in [row.more["also"]] if "also" in row.more else []:
        script = script.replace(old, new, 1)
    return script


def lint_row(row: AdviceRow) -> list[Finding]:
    judged = judge_text("train.sh", script_of(row), row.more.get("release", "0.15.3"))
    return [each for each in judged if each.level > Level.SKIPPED]


def names_mistake(each: Finding, row: AdviceRow) -> bool:
    text = " ".join(
        (each.title, each.observed, each.required, each.remedy.summary if each.remedy else "")
    )
    script = script_of(row)
    line = row.more.get("line", script[: script.index(row.new)].count("\n") + 1)
    return (
        each.level is Level[row.more.get("level", "error").upper()]
        and each.location is not None
        and each.location.line == line
        and row.says in text
    )


@pytest.mark.parametrize("row", rows("mistakes"), ids=lambda row: row.new)
def test_a_mistake_is_named_at_its_line(row: AdviceRow) -> None:
    judged = lint_row(row)
    assert any(names_mistake(each, row) for each in judged), judged


@pytest.mark.parametrize("row", rows("healthy"), ids=lambda row: row.new)
def test_a_healthy_launch_has_no_error(row: AdviceRow) -> None:
    assert [each for each in lint_row(row) if each.level in {Level.ERROR, Level.WARNING}] == []


@pytest.mark.slow
@pytest.mark.parametrize("row", LABELS["hook"], ids=lambda row: str(row["name"]))
def test_a_commit_hook_fails_on_certain_mistakes_only(
    row: dict[str, Any], doctor: Command, tmp_path: Path
) -> None:
    file = tmp_path / row["name"]
    file.write_text(row["text"], "utf-8")
    done = doctor("lint", "--quiet", "--hook", str(file), cwd=tmp_path)
    assert done.returncode == row["exit"], done.stdout + done.stderr
    assert not (row["silent"] and done.stdout + done.stderr)
