"""The report for a person at a terminal."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ascend_doctor.findings import Finding, Level
from ascend_doctor.render.fields import fields
from ascend_doctor.render.page import Page
from ascend_doctor.render.pairs import matrix_of
from ascend_doctor.render.plain import lines, one_line
from ascend_doctor.report import Report

_LABEL = 7
_SUBJECT = 20
_START = "Start here: "
_NAME, _CELL = 24, 9  # columns of the matrix of pairs


def render(
    report: Report,
    *,
    color: bool = False,
    width: int = 100,
    ascii_only: bool = False,
    verbose: bool = False,
) -> str:
    """The whole report: subjects, errors, warnings, what could not be told, what to do first.

    What follows from an error stands below it, or by itself with ``verbose``, which adds sources.
    """
    page = _TextPage(color=color, width=width, ascii_only=ascii_only, label=_LABEL)
    page.head(report)
    page.subjects(report)
    for finding in report.unfolded if verbose else report.complaints:
        page.finding(finding, () if verbose else report.consequences(finding), verbose=verbose)
    page.pairs(report)
    page.rest(report, verbose=verbose)
    page.foot(report)
    return page.text


class _TextPage(Page):
    def head(self, report: Report) -> None:
        host, python = report.snapshot.host, report.snapshot.python
        parts = [f"ascend-doctor {report.tool_version}"]
        if report.notices:  # on the first line, however long
            first = self.separator.join(map(one_line, (*parts, *report.notices)))
            self.rows.append(self.styled(first, fg="yellow", bold=True))
            parts = []
        if report.host or report.levels:
            parts.append(report.host or "this machine")
        if host is not None:
            parts.append(f"{host.os_id} {host.os_version} {host.arch}")
        if python is not None and python.executable:
            parts.append(f"Python {python.version} at {python.executable}")
        for row in self.wrap(self.separator.join(map(one_line, parts)), 0):
            self.rows.append(self.styled(row, bold=True))
        if report.simulated:
            text = "SIMULATED: no NPU was touched; this says nothing about hardware."
            self.rows.append(self.styled(text, fg="yellow", bold=True))
        if report.patience > 1:
            text = f"Every deadline times {report.patience:g}: {one_line(report.patience_because)}"
            self.rows.append(self.styled(text, dim=True))
        if scope := _scope(report):
            self.dim(scope, 0)

    def subjects(self, report: Report) -> None:
        """What was looked at, where there is more than one subject."""
        if len(report.subjects) > 1:
            self.rows.append("")
            for subject in report.subjects:
                first, *more = self.wrap(one_line(subject.text), _SUBJECT)
                level = subject.level
                if report.bare and level is Level.OK:
                    level = Level.SKIPPED
                head = f"{self.mark(level)} {subject.name:<{_SUBJECT - 2}}{first}"
                self.rows += [head, *more]

    def finding(self, finding: Finding, consequences: Sequence[Finding], *, verbose: bool) -> None:
        word = finding.level.value
        title, *more = self.wrap(f"{word}: {finding.title}  [{finding.check}]", 2)
        head = self.leveled(finding.level, f"{word}:") + title[len(word) + 1 :]
        self.rows += ["", f"{self.mark(finding.level)} {head}", *more]
        before = ""
        for label, text in fields(finding, consequences):
            if label == "source" and not verbose:
                continue
            self.field("" if label == before else label, text)
            before = label
        for command in finding.remedy.commands if finding.remedy else ():
            for number, line in enumerate(lines(command)):
                prompt = "> " if number else "$ "
                self.rows.append(" " * 9 + self.styled(prompt + line, fg="cyan"))

    def pairs(self, report: Report) -> None:
        """The matrix of pairs of nodes, as wide as the page allows."""
        matrix = matrix_of(report, most=(self.width - _NAME) // _CELL)
        if matrix is None:
            return
        self.rows += ["", self.styled(matrix.title, bold=True)]
        self.rows.append(" " * _NAME + "".join(f"{number:>{_CELL}}" for number in matrix.numbers))
        for number, name, row in zip(matrix.numbers, matrix.names, matrix.rows, strict=True):
            cells = [
                f"{'.':>{_CELL}}"
                if cell is None
                else self.leveled(cell.level, f"{cell.text:>{_CELL}}")
                for cell in row
            ]
            self.rows.append(
                f"{number:>4} {one_line(name)[: _NAME - 6]:<{_NAME - 5}}" + "".join(cells)
            )

    def rest(self, report: Report, *, verbose: bool) -> None:
        """What is well and what did not apply: lines with ``verbose``, else counts and notes."""
        self.rows.append("")
        for level in (Level.OK, Level.SKIPPED):
            findings = [finding for finding in report.findings if finding.level is level]
            if findings and not verbose:
                shown = Level.SKIPPED if report.bare else level
                self.rows.append(f"{self.mark(shown)} {len(findings)} {level.value}")
            for finding in findings:
                if verbose or (level is Level.OK and finding.observed):
                    tail = f": {finding.observed}" if finding.observed else ""
                    first, *more = self.wrap(f"{finding.title}{tail}  [{finding.check}]", 2)
                    self.rows += [f"{self.mark(level) if verbose else ' '} {first}", *more]

    def start(self, report: Report) -> None:
        """What to do first, where something is wrong: lines to type, else what the remedy says."""
        worst = next(iter(report.complaints), None)
        remedy = worst.remedy if worst else None
        if worst is None or remedy is None or worst.level is Level.WARNING:
            return
        text = " && ".join(remedy.commands) or remedy.summary
        if len(lines(text)) > 1:
            text = f"see {worst.check}"
        first, *more = self.wrap(one_line(text), len(_START))
        self.rows += ["", self.styled(_START, bold=True) + first, *more, ""]

    def foot(self, report: Report) -> None:
        self.start(report)
        for level in report.levels:
            if not level.ran:
                text = f"did not run: {level.reason}" if level.asked else f"would add {level.adds}"
                self.dim(f"level {level.level} {text}", 8)
        worst = report.verdict.worst
        if worst <= Level.SKIPPED:
            worst = Level.OK if report.verdict.judged and not report.bare else Level.SKIPPED
        mark = self.mark(worst)
        verdict = self.styled(report.verdict.text(), bold=True)
        tail = "".join(
            self.styled(f" ({word})", fg="yellow", bold=True)
            for word, true in (("simulated", report.simulated), ("interrupted", report.interrupted))
            if true
        )
        self.rows.append(f"{mark} {verdict} in {report.seconds:.1f} s{tail}")
        if report.redacted:
            self.pseudonyms(*(("Addresses",) if report.fleet else ()))


def _scope(report: Report) -> str:
    if (fleet := report.fleet) is not None:
        counts = {
            "passed": fleet.passing,
            "failed": fleet.failing,
            "without a verdict": fleet.untold,
            "missing": fleet.missing,
        }
        return ", ".join(f"{len(nodes)} {word}" for word, nodes in counts.items())
    if not report.levels:
        return ""
    ran = ", ".join(str(level.level) for level in report.levels if level.ran)
    device = "no NPU" if report.bare else f"device {one_line(report.device)}"
    paths = report.snapshot.started
    programs = ", ".join(sorted({os.path.basename(path) for path in paths}))
    started = f"; started {one_line(programs)}" if programs else ""
    return f"levels {ran}; {device}{started}"
