"""What lint advises on names, launchers and variables, against labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ascend_doctor.checks import all_checks
from ascend_doctor.findings import Finding, Level
from ascend_doctor.linting.inputs import subjects
from ascend_doctor.linting.launch_checks import findings, machine, suits, unique
from ascend_doctor.matrix.catalog import Catalog
from tests.conftest import Command

CATALOG = Catalog()
CHECKS = tuple(check for check in all_checks() if suits(check))
LABELS = yaml.safe_load(Path(__file__).with_name("advice.yaml").read_text("utf-8"))


def script_of(row: dict[str, Any]) -> str:
    text = str(row.get("text") or LABELS["bases"][row["base"]])
    for old, new in filter(None, (row.get("put"), row.get("also"))):
        assert old in text
        text = text.replace(old, new, 1)
    return text


def lint_row(row: dict[str, Any]) -> list[Finding]:
    script, base = script_of(row).encode(), machine(row.get("release", "0.15.3"), "")
    judged = unique(
        tuple(
            finding
            for each in subjects("train.sh", script, CATALOG)
            for finding in findings(each, base, CATALOG, CHECKS)
        )
    )
    return [each for each in judged if each.level > Level.SKIPPED]


def describe(row: dict[str, Any]) -> str:
    return str(row.get("put") or row.get("text") or row.get("base"))


def names_mistake(each: Finding, row: dict[str, Any]) -> bool:
    text = " ".join(
        (each.title, each.observed, each.required, each.remedy.summary if each.remedy else "")
    )
    return (
        each.level is Level[row.get("level", "error").upper()]
        and each.location is not None
        and each.location.line == row["line"]
        and row["says"] in text
    )


@pytest.mark.parametrize("row", LABELS["mistakes"], ids=describe)
def test_a_mistake_is_named_at_its_line(row: dict[str, Any]) -> None:
    judged = lint_row(row)
    assert any(names_mistake(each, row) for each in judged), judged


@pytest.mark.parametrize("row", LABELS["healthy"], ids=describe)
def test_a_healthy_launch_has_no_error(row: dict[str, Any]) -> None:
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
