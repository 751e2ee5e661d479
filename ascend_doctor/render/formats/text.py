"""The report for a person at a terminal."""

import os
from collections.abc import Collection, Sequence

from ascend_doctor.findings import Finding, Level, first_of
from ascend_doctor.render.columns import pad, width
from ascend_doctor.render.excerpt import draw
from ascend_doctor.render.fields import describe_consequence, fields, first_step
from ascend_doctor.render.page import Page
from ascend_doctor.render.plain import lines, one_line
from ascend_doctor.report import Report

_LABEL = 10
# Where texts of fields begin, with commands below them.
_COMMAND = 14
_SUBJECT = 20
_MEASURES = 2  # the first level that asks a device
_START = "Start here: "
_PLACES = 5
_NAME, _CELL = 24, 9  # columns of the matrix of pairs


def render(
    report: Report,
    *,
    color: bool = False,
    width: int = 100,
    ascii_only: bool = False,
    verbose: bool = False,
) -> str:
    """The whole report: subjects, errors, warnings, unknowns, what to do first.

    What follows from an error is below it, or separate with ``verbose``, which adds sources.
    Many machines have a line for each cause, and all about it with ``verbose``.
    """
    page = _TextPage(color=color, width=width, ascii_only=ascii_only, label=_LABEL)
    page.head(report)
    page.subjects(report)
    if report.fleet and not verbose:
        from ascend_doctor.render.fleet_text import add_groups

        add_groups(page, report)
    else:
        page.findings(report, verbose=verbose)
    page.pairs(report)
    page.rest(report, verbose=verbose)
    page.foot(report)
    return page.text


class _TextPage(Page):
    def head(self, report: Report) -> None:
        host, python = report.snapshot.host, report.snapshot.python
        parts = [f"ascend-doctor {report.tool_version}"]
        if report.notices:  # before all else
            first = self.separator.join(map(one_line, (*parts, *map(self.say, report.notices))))
            self.rows += [self.styled(row, fg="yellow", bold=True) for row in self.wrap(first, 0)]
            parts = []
        if report.host or report.levels:
            host_text = self.say(report.host) if report.fleet else report.host
            parts.append(host_text or self.say("this machine"))
        if host is not None:
            parts.append(f"{host.os_id} {host.os_version} {host.arch}")
        if python is not None and python.executable:
            parts.append(self.say(f"Python {python.version} at {python.executable}"))
        for row in self.wrap(self.separator.join(map(one_line, parts)), 0):
            self.rows.append(self.styled(row, bold=True))
        if report.simulated:
            text = self.say("SIMULATED: no NPU was touched; this says nothing about hardware.")
            self.rows += [self.styled(row, fg="yellow", bold=True) for row in self.wrap(text, 0)]
        if report.patience > 1:
            because = one_line(report.patience_because)
            text = self.say(f"Every deadline times {report.patience:g}: {because}")
            self.rows += [self.styled(row, dim=True) for row in self.wrap(text, 0)]
        if scope := self.separator.join(map(self.say, _scope(report))):
            self.dim(scope, 0)

    def subjects(self, report: Report) -> None:
        if len(report.subjects) > 1:
            self.rows.append("")
            for subject in report.subjects:
                first, *more = self.wrap(one_line(self.say_items(subject.text)), _SUBJECT)
                level = subject.level
                if report.bare and level is Level.OK:
                    level = Level.SKIPPED
                name = pad(self.say(subject.name), _SUBJECT - 2)
                head = f"{self.mark(level)} {name}{first}"
                self.rows += [head, *more]

    def findings(self, report: Report, *, verbose: bool) -> None:
        """Every complaint, those of one reason once; verbose: each.

        Unless verbose, a warning beside an error shows only its remedy.
        """
        shown = report.unfolded if verbose else report.complaints
        failing = bool(shown) and shown[0].level is Level.ERROR
        alike: dict[object, list[Finding]] = {}
        for finding in shown:
            alike.setdefault(id(finding) if verbose else _reason(finding), []).append(finding)
        for finding, *others in alike.values():
            short = failing and not verbose and finding.level is Level.WARNING
            consequences = () if verbose else report.consequences(finding)
            places = [str(other.location) for other in others]
            self.finding(finding, consequences, places, verbose=verbose, short=short)

    def finding(
        self,
        finding: Finding,
        consequences: Sequence[Finding],
        places: Sequence[str] = (),
        *,
        verbose: bool,
        short: bool,
    ) -> None:
        self.rows.append("")
        self.title(finding.level, finding.title, finding.check)
        hidden = {"Found", "Expected", "Why"} if short else set()
        self._fields(finding, places, hidden if verbose else {*hidden, "Source"})
        for command in finding.remedy.commands if finding.remedy else ():
            rows = lines(command)
            # No prompt, and continued lines may be indented; a here-document may not.
            is_indented = all(row.endswith("\\") for row in rows[:-1])
            indent = " " * _COMMAND if is_indented else ""
            self.rows += [indent + self.styled(row, fg="cyan") for row in rows]
        label = "Leads to"
        for consequence in consequences:
            self.quote(label, describe_consequence(consequence, self.say))
            label = ""

    def _fields(self, finding: Finding, places: Sequence[str], hidden: Collection[str]) -> None:
        before = ""
        for label, text in fields(finding):
            if label in hidden:
                continue
            self.field("" if label == before else label, text)
            before = label
            if label == "At" and finding.excerpt and finding.location:
                number = finding.location.line
                self.rows += draw(finding.excerpt, number, self.width, ascii_only=self.ascii_only)
            if label == "At" and places:
                self.field("Also at", first_of(places, _PLACES))

    def pairs(self, report: Report) -> None:
        if report.fleet is None and not report.snapshot.probes:
            return
        from ascend_doctor.render.pairs import matrix_of

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
        """Device measurements; with ``verbose`` all that is well or skipped."""
        measured = any(level.ran and level.level >= _MEASURES for level in report.levels)
        rows: list[str] = []
        for level in (Level.OK, Level.SKIPPED) if verbose else (Level.OK,):
            for finding in report.findings:
                if finding.level is level and (verbose or (measured and finding.observed)):
                    tail = f": {self.say(finding.observed)}" if finding.observed else ""
                    if verbose and finding.because and level is Level.OK:
                        tail += f". {self.say(finding.because)}"
                    title = f"{self.say(finding.title)}{tail}  [{finding.check}]"
                    first, *more = self.wrap(title, 2)
                    rows += [f"{self.mark(level)} {first}", *more]
        self.rows += ["", *rows] if rows else []

    def start(self, report: Report) -> None:
        text, is_command = first_step(report)
        if text:
            start = self.say(_START)
            rows = [one_line(text)]  # a command stays on one line, to be pasted
            if not is_command:
                rows = self.wrap(one_line(self.say(text)), width(start))
            first, *more = rows
            self.rows += ["", self.styled(start, bold=True) + first, *more]

    def foot(self, report: Report) -> None:
        self.start(report)
        self.rows.append("")
        left = [level for level in report.levels if level.asked and not level.ran]
        if left[1:]:  # one reason ends a run
            low, high, why = left[0].level, left[-1].level, left[0].reason
            self.dim(self.say(f"Levels {low} to {high} did not run: {why}"), 8)
        elif left:
            self.dim(self.say(f"Level {left[0].level} did not run: {left[0].reason}"), 8)
        more = [
            self.say(f"-l {level.level} also checks {self.say(level.adds)}")
            for level in report.levels
            if not level.asked
        ]
        if more and report.verdict.worst < Level.UNKNOWN:
            self.dim("; ".join(more))
        worst = report.verdict.worst
        if worst <= Level.SKIPPED:
            worst = Level.OK if report.verdict.judged and not report.bare else Level.SKIPPED
        mark = self.mark(worst)
        verdict = self.say(report.outcome)
        rows = self.wrap(f"{verdict}{self.separator}{report.seconds:.1f} s", 2)
        room = self.width - 2 - width(rows[-1].strip())
        first, *more = (self.styled(row, bold=True) for row in rows)
        marks = (("simulated", report.simulated), ("interrupted", report.interrupted))
        tail = " ".join(f"({self.say(word)})" for word, true in marks if true)
        self.rows += [f"{mark} {first}", *more]
        if tail:
            beside = width(tail) < room
            self.rows[-1] += " " if beside else ""
            self.rows += [] if beside else ["  "]
            self.rows[-1] += self.styled(tail, fg="yellow", bold=True)
        if report.fleet and worst > Level.SKIPPED:
            self.dim(self.say("-v shows what was found on which node, and what to do about it."))
        if report.redacted:
            self.pseudonyms(*(("Addresses",) if report.fleet else ()))


def _reason(finding: Finding) -> object:
    """What findings at several places have in common; unknown values differ by their lines."""
    if finding.location is None:
        return id(finding)
    observed = "" if finding.level is Level.UNKNOWN else finding.observed
    parts = (finding.check, finding.level, finding.title, observed, finding.because)
    return (*parts, finding.required, finding.remedy, finding.because_of)


_DEVICES = {"npu": "device npu", "cpu": "device cpu", "cuda": "device cuda"}


def _scope(report: Report) -> list[str]:
    if (fleet := report.fleet) is not None:
        return [fleet.text()]
    if not report.levels:
        return []
    ran = [str(level.level) for level in report.levels if level.ran]
    levels = f"Ran level {ran[0]}" if len(ran) == 1 else f"Ran levels {', '.join(ran)}"
    device = _DEVICES.get(report.device) or f"device {one_line(report.device)}"
    device = "no NPU found" if report.bare else device
    programs = sorted({os.path.basename(path) for path in report.snapshot.started})
    started = f"started {one_line(', '.join(programs))}" if programs else ""
    return [part for part in (levels, device, started) if part]
