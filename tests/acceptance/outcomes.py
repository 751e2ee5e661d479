"""Counts the outcomes of tests by file, and prints them by need."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest

from tests.acceptance.needs import Need

_COLUMNS = "{:20} {:>7} {:>7} {:>8} {:>8}  {}"


@dataclass
class FileOutcome:
    """The tests of a file. ``reasons`` are those of skipped tests."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, report: pytest.TestReport) -> None:
        self.seconds += report.duration
        if report.failed:
            self.failed += 1
        elif report.skipped and not hasattr(report, "wasxfail"):
            self.skipped += 1
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else "skipped"
            self.reasons[reason.removeprefix("Skipped: ")] += 1
        elif report.when == "call":
            self.passed += 1


class Outcomes:
    """A plugin of pytest that keeps the outcome of each file, by its path below the root."""

    def __init__(self) -> None:
        self.files: defaultdict[str, FileOutcome] = defaultdict(FileOutcome)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.files[report.nodeid.partition("::")[0]].add(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.files[report.nodeid.partition("::")[0]].failed += 1

    def of_files(self, names: Sequence[str]) -> FileOutcome:
        """The sum over files below tests/."""
        total = FileOutcome()
        for name in names:
            row = self.files.get(f"tests/{name}", FileOutcome())
            total.passed += row.passed
            total.failed += row.failed
            total.skipped += row.skipped
            total.seconds += row.seconds
            total.reasons += row.reasons
        return total

    @property
    def failed(self) -> bool:
        return any(row.failed for row in self.files.values())

    @property
    def ran(self) -> bool:
        return any(row.failed or row.passed for row in self.files.values())


def table(needs: Sequence[Need], outcomes: Outcomes, absent: dict[str, str]) -> Iterator[str]:
    """The closing lines: a row a need, and the sum, which counts each test once."""
    yield _COLUMNS.format("need", "passed", "failed", "skipped", "minutes", "not run")
    for need in needs:
        yield _row(need.id, outcomes.of_files(need.files), absent.get(need.id, ""))
    every = sorted({name for need in needs for name in need.files})
    whole = outcomes.of_files(every)
    yield _row("all", whole, "")
    for reason, count in whole.reasons.most_common():
        yield f"skipped {count}: {reason}"


def _row(name: str, outcome: FileOutcome, reason: str) -> str:
    minutes = f"{outcome.seconds / 60:.1f}"
    counts = (outcome.passed, outcome.failed, outcome.skipped)
    return _COLUMNS.format(name, *counts, minutes, reason).rstrip()
