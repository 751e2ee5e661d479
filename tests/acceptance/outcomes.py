"""Counts the outcomes of tests by file, and prints them by need."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

import pytest

from tests.acceptance.needs import Need

_COLUMNS = "{:20} {:>7} {:>7} {:>8} {:>8}  {}"


class Outcomes:
    """A pytest plugin: counts and seconds by file, reasons of skips."""

    def __init__(self) -> None:
        self.files: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.reasons: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        file = report.nodeid.partition("::")[0]
        self.seconds[file] += report.duration
        if report.skipped and not hasattr(report, "wasxfail"):
            self.files[file]["skipped"] += 1
            self.reasons[str(report.longrepr[2] if report.longrepr else "")] += 1  # type: ignore[index]
        elif report.failed or report.when == "call":
            self.files[file]["failed" if report.failed else "passed"] += 1

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.files[report.nodeid.partition("::")[0]]["failed"] += 1

    def count(self, outcome: str) -> int:
        return sum(row[outcome] for row in self.files.values())

    def row(self, name: str, files: Iterable[str], reason: str = "") -> str:
        paths = {f"tests/{file.partition('::')[0]}" for file in files}
        counts = [
            sum(self.files[path][key] for path in paths) for key in ("passed", "failed", "skipped")
        ]
        minutes = sum(self.seconds[path] for path in paths) / 60
        return _COLUMNS.format(name, *counts, f"{minutes:.1f}", reason).rstrip()


def table(needs: Sequence[Need], outcomes: Outcomes, absent: dict[str, str]) -> Iterator[str]:
    """A row a need, and the sum, which counts each test once."""
    yield _COLUMNS.format("need", "passed", "failed", "skipped", "minutes", "not run")
    for need in needs:
        yield outcomes.row(need.id, need.files, absent.get(need.id, ""))
    yield outcomes.row("all", {name for need in needs for name in need.files})
    for reason, count in outcomes.reasons.most_common():
        yield f"skipped {count}: {reason.removeprefix('Skipped: ')}"
