"""The report for a person at a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

from click import style

from ascend_doctor.findings import Finding, Level
from ascend_doctor.render.plain import lines, one_line, shortened
from ascend_doctor.report import Report

# Symbols differ in shape as well as in colour; the second set is for terminals without Unicode.
_MARKS: dict[Level, tuple[str, str, dict[str, Any]]] = {
    Level.ERROR: ("✗", "x", {"fg": "red", "bold": True}),
    Level.UNKNOWN: ("?", "?", {"fg": "magenta", "bold": True}),
    Level.WARNING: ("!", "!", {"fg": "yellow", "bold": True}),
    Level.OK: ("✓", "+", {"fg": "green"}),
    Level.SKIPPED: ("·", "-", {"dim": True}),
}
_SHOWN = (Level.ERROR, Level.WARNING, Level.UNKNOWN)
_FIELD = "  {label:<7}"


def render(
    report: Report,
    *,
    color: bool = False,
    width: int = 100,
    ascii_only: bool = False,
    verbose: bool = False,
) -> str:
    """The whole report. Errors come first, then warnings, then what could not be told."""
    page = _Page(color=color, width=max(width, 40), ascii_only=ascii_only)
    page.head(report)
    for level in _SHOWN:
        for finding in report.findings:
            if finding.level is level:
                page.finding(finding)
    page.rest(report, verbose=verbose)
    page.foot(report)
    text = "\n".join(line.rstrip() for line in page.rows) + "\n"
    return text.encode("ascii", "backslashreplace").decode() if ascii_only else text


class _Page:
    def __init__(self, *, color: bool, width: int, ascii_only: bool) -> None:
        self.rows: list[str] = []
        self._color = color
        self._width = width
        self._ascii = ascii_only

    def _styled(self, text: str, **how: Any) -> str:
        return style(text, **how) if self._color else text

    def _mark(self, level: Level) -> str:
        fancy, simple, how = _MARKS[level]
        return self._styled(simple if self._ascii else fancy, **how)

    def _wrapped(self, text: str, indent: int) -> list[str]:
        """The lines of a text in what is left of the width; the first is not indented."""
        room = max(self._width - indent, 20)
        found = [
            part
            for line in lines(text)
            for part in textwrap.wrap(line, room, break_on_hyphens=False) or [""]
        ]
        return [found[0], *(" " * indent + part for part in found[1:])]

    def head(self, report: Report) -> None:
        host, python = report.snapshot.host, report.snapshot.python
        parts = [f"ascend-doctor {report.tool_version}", report.host or "this machine"]
        if host is not None:
            parts.append(f"{host.os_id} {host.os_version} {host.arch}")
        if python is not None:
            parts.append(f"Python {python.version} at {python.executable}")
        separator = " - " if self._ascii else " · "
        for row in self._wrapped(separator.join(map(one_line, parts)), 0):
            self.rows.append(self._styled(row, bold=True))
        if report.simulated:
            told = "SIMULATED: no NPU was touched; this says nothing about hardware."
            self.rows.append(self._styled(told, fg="yellow", bold=True))
        self.rows.append(self._styled(_scope(report), dim=True))

    def finding(self, finding: Finding) -> None:
        word = finding.level.value
        title, *more = self._wrapped(f"{word}: {finding.title}  [{finding.check}]", 2)
        how = _MARKS[finding.level][2]
        head = self._styled(f"{word}:", **how) + title[len(word) + 1 :]
        self.rows += ["", f"{self._mark(finding.level)} {head}", *more]
        for label, text in _fields(finding):
            name = _FIELD.format(label=label)
            first, *rest = self._wrapped(text, len(name))
            self.rows += [self._styled(name, dim=True) + first, *rest]
        for command in finding.remedy.commands if finding.remedy else ():
            for number, line in enumerate(lines(command)):
                prompt = "> " if number else "$ "
                self.rows.append(" " * 9 + self._styled(prompt + line, fg="cyan"))

    def rest(self, report: Report, *, verbose: bool) -> None:
        """What is well and what did not apply: lines with ``verbose``, else counts and notes."""
        self.rows.append("")
        for level in (Level.OK, Level.SKIPPED):
            found = [one for one in report.findings if one.level is level]
            if found and not verbose:
                self.rows.append(f"{self._mark(level)} {len(found)} {level.value}")
            for one in found:
                if verbose or (level is Level.OK and one.found):
                    tail = f": {one.found}" if one.found else ""
                    first, *more = self._wrapped(f"{one.title}{tail}  [{one.check}]", 2)
                    self.rows += [f"{self._mark(level) if verbose else ' '} {first}", *more]

    def foot(self, report: Report) -> None:
        for one in report.levels:
            if not one.ran:
                told = f"did not run: {one.reason}" if one.asked else f"would add {one.adds}"
                for row in self._wrapped(f"level {one.level} {told}", 8):
                    self.rows.append(self._styled(row, dim=True))
        fine = report.verdict.worst is Level.SKIPPED and report.verdict.judged
        mark = self._mark(Level.OK if fine else report.verdict.worst)
        verdict = self._styled(report.verdict.text(), bold=True)
        tail = "".join(
            self._styled(f" ({word})", fg="yellow", bold=True)
            for word, true in (("simulated", report.simulated), ("interrupted", report.interrupted))
            if true
        )
        self.rows.append(f"{mark} {verdict} in {report.seconds:.1f} s{tail}")
        if report.redacted:
            told = "Names and addresses are pseudonyms; --no-redact shows them."
            self.rows.append(self._styled(told, dim=True))


def _scope(report: Report) -> str:
    if (fleet := report.fleet) is not None:
        counts = {
            "passed": fleet.passing,
            "failed": fleet.failing,
            "without a verdict": fleet.untold,
            "missing": fleet.missing,
        }
        return ", ".join(f"{len(nodes)} {word}" for word, nodes in counts.items())
    ran = ", ".join(str(one.level) for one in report.levels if one.ran)
    return f"levels {ran}; device {one_line(report.device)}"


def _fields(finding: Finding) -> Iterator[tuple[str, str]]:
    if finding.place is not None:
        yield "at", str(finding.place)
    if finding.nodes:
        yield "nodes", shortened(finding.nodes)
    for label, values in (("ranks", finding.ranks), ("device", finding.devices)):
        if values:
            yield label, ", ".join(map(str, values))
    texts = {"found": finding.found, "wanted": finding.wanted, "why": finding.because}
    yield from ((label, text) for label, text in texts.items() if text)
    for number, ref in enumerate(finding.refs):
        yield "" if number else "source", ref
    if finding.remedy is not None:
        yield "do", finding.remedy.summary
