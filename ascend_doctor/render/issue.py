"""The report as a paste for a bug report: what matters first, and short enough for an issue."""

import html
import re
from collections.abc import Iterator

from ascend_doctor.comparison.comparable import Group, group_settings
from ascend_doctor.findings import Level, quantity
from ascend_doctor.language import say
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.probe_results import ProbeRun
from ascend_doctor.render.formats.markdown import about, fence, headline, plain, table, verdict
from ascend_doctor.render.plain import one_line
from ascend_doctor.report import Report

# GitHub takes 65,536 characters; the reporter's words need some of them.
LONGEST = 60_000
# Readers ask for these first.
_FIRST = (Group.STACK, Group.DEVICES)


def render(report: Report) -> str:
    """Verdict, versions, findings by severity; then probes and facts in folds, as room allows.

    The report must be redacted.
    """
    rows: list[str] = []
    room, left_out = LONGEST, 0
    for part in _parts(report):
        size = sum(len(row) + 1 for row in part)
        if size <= room:
            rows += part
            room -= size
        else:
            left_out += 1
    if left_out:
        rows.append(
            say(f"{quantity(left_out, 'part')} left out for length; attach the JSON report.")
        )
    return "\n".join(rows) + "\n"


def _parts(report: Report) -> Iterator[list[str]]:
    yield [f"### {headline(report)}", "", *verdict(report)]
    levels = "; ".join(
        say(f"level {level_run.level} did not run: {level_run.reason}")
        for level_run in report.levels
        if level_run.asked and not level_run.ran
    )
    about_run = f"{report.device}, {report.taken_at}"
    yield [plain(f"{about_run}; {levels}" if levels else about_run), ""]
    by_group = group_settings(report.snapshot, Catalog().distributions)
    first = [row for group in _FIRST for row in by_group[group]]
    if first:
        yield [*table(("", say("version or setting")), first), ""]
    for finding in report.complaints:
        yield about(finding, report)
    for run in report.snapshot.probes:
        yield _fold(say(f"probe {run.probe}: {_describe_end(run)}"), _probe(run))
    for group, listed in by_group.items():
        if listed and group not in _FIRST:
            yield _fold(f"{say(group.value)} ({len(listed)})", table(("", ""), listed))
    for level in (Level.OK, Level.SKIPPED):
        named = [finding.check for finding in report.findings if finding.level is level]
        if named:
            yield _fold(f"{say(level.value)} ({len(named)})", [plain(", ".join(named))])


def _fold(title: str, rows: list[str]) -> list[str]:
    """Markdown does not work in the title line: that is HTML."""
    # A word joiner after them prevents mentions and references.
    harmless = re.sub("([@#])", "\\1\u2060", one_line(title))
    head = f"<details><summary>{html.escape(harmless, quote=False)}</summary>"
    return [head, "", *rows, "", "</details>", ""]


def _describe_end(run: ProbeRun) -> str:
    if run.not_started:
        return "not started"
    if not run.blocks:
        return "passed"
    return "timed out" if run.timed_out else "failed"


def _probe(run: ProbeRun) -> list[str]:
    rows = [
        (str(rank.rank), rank.stage, " ".join(rank.error.split())[-200:] if rank.error else "")
        for rank in run.ranks[:16]
    ]
    rows_of_ranks = (
        table((say("rank"), say("stage"), say("error")), rows) if run.blocks and rows else []
    )
    again = fence(" ".join(run.argv), "bash") if run.argv else []
    output = fence(run.output[-2000:]) if run.blocks and run.output else []
    reason = [plain(say(run.not_started))] if run.not_started else []
    return [*(again and [*again, ""]), *(rows_of_ranks and [*rows_of_ranks, ""]), *output, *reason]
