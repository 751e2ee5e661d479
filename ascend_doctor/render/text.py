"""The report for a person at a terminal."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ascend_doctor.findings import Finding, Level
from ascend_doctor.render.plain import lines, one_line
from ascend_doctor.report import Report

# Symbols differ in shape as well as in colour; the second set is for terminals without Unicode.
_MARKS = {
    Level.ERROR: ("✗", "x", "bold red"),
    Level.UNKNOWN: ("?", "?", "bold magenta"),
    Level.WARNING: ("!", "!", "bold yellow"),
    Level.OK: ("✓", "+", "green"),
    Level.SKIPPED: ("·", "-", "dim"),
}
_SHOWN = (Level.ERROR, Level.WARNING, Level.UNKNOWN)


def render(
    report: Report,
    *,
    color: bool = False,
    width: int = 100,
    ascii_only: bool = False,
    verbose: bool = False,
) -> str:
    """The whole report. Errors come first, then warnings, then what could not be told."""
    out = io.StringIO()
    console = Console(
        file=out,
        width=width,
        force_terminal=color,
        color_system="standard" if color else None,
        highlight=False,
        emoji=False,
        markup=False,
    )
    page = _Page(console, ascii_only=ascii_only)
    page.head(report)
    for level in _SHOWN:
        for finding in report.findings:
            if finding.level is level:
                page.finding(finding)
    page.rest(report, verbose=verbose)
    page.foot(report)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


class _Page:
    def __init__(self, console: Console, *, ascii_only: bool) -> None:
        self._console = console
        self._ascii = ascii_only

    def _mark(self, level: Level) -> tuple[str, str]:
        fancy, simple, style = _MARKS[level]
        return (simple if self._ascii else fancy), style

    def head(self, report: Report) -> None:
        host, python = report.snapshot.host, report.snapshot.python
        parts = [f"ascend-doctor {report.tool_version}", report.host or "this machine"]
        if host is not None:
            parts.append(f"{host.os_id} {host.os_version} {host.arch}")
        if python is not None:
            parts.append(f"Python {python.version} at {python.executable}")
        separator = " - " if self._ascii else " · "
        self._console.print(Text(one_line(separator.join(parts)), style="bold"))
        if report.simulated:
            self._console.print(
                Text(
                    "SIMULATED: no NPU was touched; this says nothing about hardware.",
                    style="bold yellow",
                )
            )
        ran = ", ".join(str(one.level) for one in report.levels if one.ran)
        self._console.print(Text(f"levels {ran}; device {one_line(report.device)}", style="dim"))

    def finding(self, finding: Finding) -> None:
        mark, style = self._mark(finding.level)
        title = Text()
        title.append(f"{finding.level.value}: ", style=style)
        title.append(one_line(finding.title), style="bold")
        title.append(f"  [{finding.check}]", style="dim")
        self._console.print()
        self._console.print(_rows([(Text(mark, style=style), title)]))
        fields = [(Text(label, style="dim"), text) for label, text in _fields(finding)]
        if fields:
            self._console.print(Padding(_rows(fields, width=6), (0, 0, 0, 2)))
        for command in finding.remedy.commands if finding.remedy else ():
            for number, line in enumerate(lines(command)):
                text = Text(f"         {'> ' if number else '$ '}{line}", style="cyan")
                self._console.print(text, soft_wrap=True)

    def rest(self, report: Report, *, verbose: bool) -> None:
        """What is well and what did not apply: lines with ``verbose``, else counts and notes."""
        self._console.print()
        for level in (Level.OK, Level.SKIPPED):
            found = [one for one in report.findings if one.level is level]
            mark, style = self._mark(level)
            if found and not verbose:
                self._console.print(Text(f"{mark} {len(found)} {level.value}", style=style))
            shown = [one for one in found if verbose or (level is Level.OK and one.found)]
            self._console.print(
                _rows([(Text(mark if verbose else " ", style=style), _line(one)) for one in shown])
            )

    def foot(self, report: Report) -> None:
        for one in report.levels:
            if one.ran:
                continue
            text = f"did not run: {one.reason}" if one.asked else f"would add {one.adds}"
            self._console.print(
                _rows(
                    [(Text(f"level {one.level}", style="dim"), Text(one_line(text), style="dim"))]
                )
            )
        fine = report.verdict.worst is Level.SKIPPED and report.verdict.judged
        mark, style = self._mark(Level.OK if fine else report.verdict.worst)
        line = Text(f"{mark} ", style=style)
        line.append(report.verdict.text(), style="bold")
        line.append(f" in {report.seconds:.1f} s", style="dim")
        if report.simulated:
            line.append(" (simulated)", style="bold yellow")
        if report.interrupted:
            line.append(" (interrupted)", style="bold red")
        self._console.print(line)
        if report.redacted:
            self._console.print(
                Text("Names and addresses are pseudonyms; --no-redact shows them.", style="dim")
            )


def _fields(finding: Finding) -> Iterator[tuple[str, Text]]:
    numbers = {"ranks": finding.ranks, "device": finding.devices}
    for label, values in numbers.items():
        if values:
            yield label, Text(", ".join(map(str, values)))
    texts = {"found": finding.found, "wanted": finding.wanted, "why": finding.because}
    for label, text in texts.items():
        if text:
            yield label, Text("\n".join(lines(text)))
    for number, ref in enumerate(finding.refs):
        yield "" if number else "source", Text(one_line(ref))
    if finding.remedy is not None:
        yield "do", Text(one_line(finding.remedy.summary))


def _line(finding: Finding) -> Text:
    line = Text(one_line(finding.title + (f": {finding.found}" if finding.found else "")))
    line.append(f"  [{finding.check}]", style="dim")
    return line


def _rows(rows: Iterable[tuple[Text, Text]], *, width: int | None = None) -> Table:
    """Two columns; what wraps stays in its column."""
    table = Table.grid(padding=(0, 1))
    table.add_column(width=width, no_wrap=True)
    table.add_column(overflow="fold")
    for label, text in rows:
        table.add_row(label, text)
    return table
