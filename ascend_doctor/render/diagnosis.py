"""A diagnosis: for a person, for a bug report, and as a report for the other formats."""

from collections.abc import Callable, Iterator

from ascend_doctor.diagnosis.result import (
    Attempt,
    Cause,
    Code,
    Consequence,
    Counted,
    Diagnosis,
    Evidence,
    JobVerdict,
    Unexplained,
)
from ascend_doctor.facts import Snapshot
from ascend_doctor.findings import Finding, Level, Remedy, quantity, show_bytes, spans
from ascend_doctor.render.page import Page
from ascend_doctor.render.plain import one_line
from ascend_doctor.render.stall import stall_rows, stall_title
from ascend_doctor.report import Report, verdict

OWN_ERROR = "An error that the catalogue does not know, and the other ranks waited"
_NO_WORK = "Nothing shows that the run got on: no step, no result, no good end"
_SURVIVED = "The run got on after what reads like a failure, which may have ended a part of it"
# Outcomes without a failure.
NO_VERDICT = ("nothing known found", "could not tell")
_LEVELS = {"fatal": Level.ERROR, "unknown": Level.UNKNOWN, "degraded": Level.WARNING}
_LABEL = 10
# The last ones; a restart loop has hundreds of the same.
_ATTEMPTS = 8
_CODES = 12


def render(
    diagnosis: Diagnosis,
    *,
    color: bool = False,
    width: int = 100,
    ascii_only: bool = False,
    verbose: bool = False,
    next_step: str = "",
) -> str:
    """The whole diagnosis, root cause first; ``next_step`` is to type if there is none."""
    page = _DiagnosisPage(color=color, width=width, ascii_only=ascii_only, label=_LABEL)
    page.head(diagnosis)
    page.verdict(diagnosis)
    page.stall(diagnosis, verbose=verbose)
    own = own_error(diagnosis)
    if own:
        page.own_error(own, diagnosis)
    for number, cause in enumerate(diagnosis.causes):
        page.cause(cause, diagnosis if number == 0 else None, follows=own is not None)
    page.unexplained(diagnosis)
    page.suspects(diagnosis)
    page.codes(diagnosis, verbose=verbose)
    page.now(diagnosis)
    page.remarks(diagnosis, verbose=verbose)
    page.foot(diagnosis, next_step)
    return page.text


class _DiagnosisPage(Page):
    def _title(self, kind: str, text: str) -> None:
        first, *more = self.wrap(self.say(text), 2)
        self.rows += ["", f"{self.mark(_LEVELS[kind])} {self.styled(first, bold=True)}", *more]

    def head(self, diagnosis: Diagnosis) -> None:
        parts = (f"ascend-doctor {diagnosis.tool_version}", *_run_parts(diagnosis))
        text = self.separator.join(one_line(self.say(part)) for part in parts)
        self.rows += [self.styled(row, bold=True) for row in self.wrap(text, 0)]

    def verdict(self, diagnosis: Diagnosis) -> None:
        """What to do, before why; then the other known attempts."""
        verdict = diagnosis.verdict
        if verdict is None or diagnosis.outcome in NO_VERDICT:
            return
        first, *more = self.wrap(self.say(f"Verdict: {say_verdict(verdict)}"), 2)
        self.rows += [self.styled(first, bold=True), *more]
        for number, attempt in enumerate(verdict.attempts[-_ATTEMPTS:]):
            self.field("" if number else "Runs", describe_attempt(attempt))
        if verdict.attempts and diagnosis.attempt:
            self.field("", f"{diagnosis.attempt}: this one")

    def stall(self, diagnosis: Diagnosis, *, verbose: bool) -> None:
        if diagnosis.stall is None:
            return
        kind = "fatal" if diagnosis.stall.absent else "unknown"
        self._title(kind, f"stalled: {stall_title(diagnosis.stall)}")
        for label, text in stall_rows(diagnosis.stall, every=verbose):
            self.field(label, text)

    def own_error(self, error: Unexplained, diagnosis: Diagnosis) -> None:
        """The root cause, if the catalogue lacks it."""
        self._title("fatal", f"{self.say('fatal')}: {self.say(OWN_ERROR)}")
        self._guilty(diagnosis)
        self.quote("Error", show(error.evidence))
        self.field("", error.reading)

    def cause(self, cause: Cause, diagnosis: Diagnosis | None, *, follows: bool = False) -> None:
        """One cause; ``diagnosis`` for the root cause, which names the guilty."""
        fatal = cause.severity == "fatal"
        word = self.say("fatal") if fatal else self.say("degraded")
        if diagnosis is None:
            word = self.say("also fatal") if fatal else self.say("also degraded")
        elif follows:
            word = self.say("what followed")
        self._title(cause.severity, f"{word}: {self.say(cause.title)}  [{cause.id}]")
        if diagnosis and not follows:
            self._guilty(diagnosis)
        for number, evidence in enumerate(cause.evidence):
            self.quote("" if number else "Found", show(evidence))
        self.field("Why", cause.cause)
        self.field("Fix", cause.fix)
        if cause.caught_by:
            named = " ".join(f"--only {check}" for check in cause.caught_by)
            self.field("Prevent", f"ascend-doctor check {named}")
        elif cause.before:
            self.field("Prevent", cause.before)
        for number, what in enumerate(cause.consequences):
            text = f"{self.say(what.title)}  [{what.id}], {self.say(lines_of(what))}"
            self.quote("" if number else "Leads to", text)
        for number, source in enumerate(cause.sources):
            self.quote("" if number else "Source", source)

    def _guilty(self, diagnosis: Diagnosis) -> None:
        guilty = diagnosis.guilty
        if text := describe_guilty(diagnosis, self.say):
            self.quote("Guilty", text)
        evidences = [unexplained.evidence for unexplained in diagnosis.unexplained]
        evidences += [line for cause in diagnosis.causes[:1] for line in cause.evidence]
        if guilty and guilty.evidence and guilty.evidence not in evidences:
            self.quote("", show(guilty.evidence))

    def unexplained(self, diagnosis: Diagnosis) -> None:
        if not diagnosis.unexplained:
            return
        if not diagnosis.causes:
            lines = error_lines(diagnosis)
            self._title("unknown", f"unknown: {lines} that the catalogue does not explain")
            # A stall's text already names the guilty.
            if diagnosis.stall is None:
                self._guilty(diagnosis)
        for number, unexplained in enumerate(not_told(diagnosis)):
            ranks = f" on ranks {spans(unexplained.ranks)}" if unexplained.ranks else ""
            often = self.say(lines_of(unexplained)) + self.say(ranks)
            often = f" ({often})" if unexplained.count > 1 else ""
            self.quote("" if number else "Error", show(unexplained.evidence) + often)
            if number == 0 and unexplained.reading:
                self.field("", unexplained.reading)
        if diagnosis.paste and not diagnosis.causes:
            self.rows += ["", self.styled(self.say("For a bug report:"), dim=True)]
            self.rows += [f"    {row}" for row in paste(diagnosis, self.say).split("\n")]

    def suspects(self, diagnosis: Diagnosis) -> None:
        if not diagnosis.suspects:
            return
        self.rows += ["", self.styled(self.say("Lines that the good run lacks"), bold=True)]
        for suspect in diagnosis.suspects:
            self.quote("", show(suspect.evidence))
            if suspect.good:
                self.quote("", f"{self.say('the good run has')} {suspect.good}")

    def codes(self, diagnosis: Diagnosis, *, verbose: bool) -> None:
        # The evidence of a known cause says more than its code.
        if not diagnosis.codes or (diagnosis.causes and not verbose):
            return
        self.rows += ["", self.styled(self.say("Codes"), bold=True)]
        for code in diagnosis.codes[:_CODES]:
            self.quote(code.code, meaning(code))

    def now(self, diagnosis: Diagnosis) -> None:
        if not diagnosis.now:
            return
        self.rows += ["", self.styled(self.say("This machine now"), bold=True)]
        for finding in diagnosis.now:
            self.quote(finding.level.value, f"{self.say(finding.title)}  [{finding.check}]")
            if finding.observed and finding.level is not Level.OK:
                self.field("", finding.observed)

    def remarks(self, diagnosis: Diagnosis, *, verbose: bool) -> None:
        """What was passed over, what is missing, and what the run came to."""
        self.rows.append("")
        if diagnosis.benign:
            count = sum(sighting.count for sighting in diagnosis.benign)
            more = any(sighting.or_more for sighting in diagnosis.benign)
            harmless = self.say(quantity(count, "harmless message", or_more=more))
            self.rows.append(f"{harmless} ({self.say(quantity(len(diagnosis.benign), 'kind'))})")
        for benign in diagnosis.benign if verbose else ():
            self.rows += self.wrap(
                f"    {self.say(times(benign))} x {self.say(benign.title)}  [{benign.id}]", 4
            )
        if diagnosis.not_read:
            self.rows.append(self.say(f"{quantity(len(diagnosis.not_read), 'file')} not read"))
        for file in diagnosis.not_read if verbose else ():
            self.rows += self.wrap(f"    {file.name}: {self.say(file.reason)}", 4)
        if diagnosis.without_log:
            ranks = spans(diagnosis.without_log)
            self.rows += self.wrap(self.say(f"no log of rank {ranks}, which the run had"), 4)
        if outlived := describe_outlived(diagnosis):
            self.rows += self.wrap(self.say(outlived), 4)
        for line in diagnosis.outlived if verbose else ():
            self.rows += self.wrap(f"    {show(line)}", 4)
        if work := describe_work(diagnosis):
            self.rows += self.wrap(self.say(work), 4)

    def foot(self, diagnosis: Diagnosis, next_step: str) -> None:
        if next_step:  # on one line, to be pasted
            self.rows += [*([""] if self.rows[-1] else []), self.say(f"Type next: {next_step}"), ""]
        level, _ = say_outcome(diagnosis)
        words = {
            "known failure": self.say("known failure"),
            "unknown error": self.say("unknown error"),
            "stalled": self.say("stalled"),
        }
        outcome = words.get(diagnosis.outcome) or self.say(diagnosis.outcome)
        outcome = self.styled(outcome, bold=True)
        seconds = f"{diagnosis.seconds:.1f} s"
        self.rows.append(f"{self.mark(level)} {outcome}{self.separator}{seconds}")
        if diagnosis.redacted:
            self.pseudonyms()


def shows_no_work(diagnosis: Diagnosis) -> bool:
    """Whether neither a certain failure nor progress is shown."""
    fatal = any(cause.severity == "fatal" for cause in diagnosis.causes)
    return diagnosis.work is None and not (fatal or diagnosis.unexplained or diagnosis.stall)


def _got_over_failure(diagnosis: Diagnosis) -> bool:
    return diagnosis.outcome == "could not tell" and diagnosis.work is not None


def _run_parts(diagnosis: Diagnosis) -> Iterator[str]:
    if diagnosis.stall and not diagnosis.logs:
        yield f"{quantity(len(diagnosis.stall.ranks), 'rank')} of a job that stands still"
        return
    yield quantity(diagnosis.logs, "log")
    yield f"{diagnosis.lines:,} line{'' if diagnosis.lines == 1 else 's'}"
    yield show_bytes(diagnosis.bytes)
    if diagnosis.ranks:
        many = len(diagnosis.ranks) > 1
        numbers = spans(diagnosis.ranks)
        yield f"ranks {numbers} seen" if many else f"rank {numbers} seen"
    if diagnosis.world_size:
        yield f"world size {diagnosis.world_size}"


def describe_run(diagnosis: Diagnosis, say: Callable[[str], str] = str) -> str:
    """What was read, on one line."""
    return " · ".join(map(say, _run_parts(diagnosis)))


def own_error(diagnosis: Diagnosis) -> Unexplained | None:
    """The error of the guilty, if the catalogue knows only its consequences."""
    guilty = diagnosis.guilty
    if not diagnosis.causes or guilty is None or not guilty.sure or guilty.evidence is None:
        return None
    return next(
        (error for error in diagnosis.unexplained if error.evidence == guilty.evidence), None
    )


def first_evidence(diagnosis: Diagnosis) -> Evidence | None:
    """The line to look at first."""
    own = own_error(diagnosis)
    lines = [own.evidence] if own else []
    lines += [line for cause in diagnosis.causes[:1] for line in cause.evidence]
    lines += [error.evidence for error in diagnosis.unexplained]
    return next(iter(lines), None)


def not_told(diagnosis: Diagnosis) -> list[Unexplained]:
    """Errors outside the catalogue, without the root cause."""
    own = own_error(diagnosis)
    return [error for error in diagnosis.unexplained if error is not own]


def say_outcome(diagnosis: Diagnosis) -> tuple[Level, str]:
    """The level, and a sentence on the root cause or its substitute."""
    if diagnosis.causes:
        root = diagnosis.causes[0]
        level = Level.ERROR if root.severity == "fatal" else Level.WARNING
        return (Level.ERROR, OWN_ERROR) if own_error(diagnosis) else (level, root.title)
    if diagnosis.stall:
        level = Level.ERROR if diagnosis.stall.absent else Level.UNKNOWN
        return level, f"Stalled: {stall_title(diagnosis.stall)}"
    if diagnosis.unexplained:
        lines = error_lines(diagnosis)
        return Level.UNKNOWN, f"{lines} that the catalogue does not explain"
    if diagnosis.without_log:
        return Level.UNKNOWN, f"No log of rank {spans(diagnosis.without_log)}, which the run had"
    if shows_no_work(diagnosis) or _got_over_failure(diagnosis):
        return Level.UNKNOWN, _SURVIVED if diagnosis.work else _NO_WORK
    return Level.OK, "Nothing known was found"


def describe_guilty(diagnosis: Diagnosis, say: Callable[[str], str] = str) -> str:
    """Who began it and why, or why it is undetermined; else empty."""
    guilty = diagnosis.guilty
    if guilty is None:
        return say(f"could not tell: {diagnosis.undecided}") if diagnosis.undecided else ""
    numbers = (
        (say("rank"), guilty.ranks),
        (say("local rank"), guilty.local_ranks),
        (say("device"), guilty.devices),
    )
    names = (
        (say("serial number"), guilty.serials),
        (say("node"), guilty.nodes),
        (say("server"), guilty.servers),
        (say("process"), guilty.processes),
    )
    who = [f"{kind} {spans(several)}" for kind, several in numbers if several]
    who += [f"{kind} {name}" for kind, several in names for name in several]
    head = ", ".join(who) if guilty.sure else say(f"probably {', '.join(who)}")
    reason = say(guilty.reason)
    # A Chinese reason follows a wide colon.
    return (": " if reason == guilty.reason else "\uff1a").join((head, reason))


def describe_work(diagnosis: Diagnosis) -> str:
    """Signs of progress, or their lack; empty after a failure."""
    if diagnosis.exit_status and diagnosis.outcome == "could not tell":
        last = f" Last at work: {show(diagnosis.work)}" if diagnosis.work else ""
        return f"It ended with {diagnosis.exit_status}, and no line of the logs says why.{last}"
    if diagnosis.work and _got_over_failure(diagnosis):
        return f"{_SURVIVED}. Last at work: {show(diagnosis.work)}"
    if shows_no_work(diagnosis):
        return f"{_NO_WORK}. Give the whole log, and those of all ranks."
    if diagnosis.work is None or diagnosis.outcome != "nothing known found":
        return ""
    return f"Last at work: {show(diagnosis.work)}"


def describe_outlived(diagnosis: Diagnosis) -> str:
    """Apparent errors that the run survived; empty if none."""
    if not diagnosis.outlived:
        return ""
    lines = quantity(diagnosis.outlived_lines, "error line")
    return f"The run got over {lines}, the first: {show(diagnosis.outlived[0])}"


def say_verdict(verdict: JobVerdict) -> str:
    what = {
        "restart": "restart",
        "exclude": f"exclude {', '.join(verdict.nodes)}",
        "stop": "stop",
        "unknown": "could not tell",
    }
    return f"{what[verdict.action]}: {verdict.reason}"


def describe_attempt(attempt: Attempt) -> str:
    parts = [
        attempt.failure or "no failure",
        f"step {attempt.step}" if attempt.step is not None else "",
        f"accused {', '.join(attempt.nodes)}" if attempt.nodes else "",
        attempt.action if attempt.action != "unknown" else "could not tell",
    ]
    return f"{attempt.name}: {', '.join(filter(None, parts))}"


def show(evidence: Evidence) -> str:
    """A line with file, line number, who and when."""
    who = [f"rank {evidence.rank}"] if evidence.rank is not None else []
    who += [
        part
        for part in (
            evidence.node,
            evidence.process if evidence.rank is None else "",
            evidence.time,
        )
        if part
    ]
    where = f"{evidence.file}:{evidence.line}" + (f" ({', '.join(who)})" if who else "")
    return f"{where}: {evidence.text}"


def times(seen: Code | Counted | Unexplained) -> str:
    """How often, as far as counted."""
    return f"{seen.count} or more" if seen.or_more else str(seen.count)


def lines_of(seen: Consequence | Unexplained) -> str:
    return quantity(seen.count, "line", or_more=seen.or_more)


def error_lines(diagnosis: Diagnosis) -> str:
    """How many lines read like an error, as far as counted."""
    more = diagnosis.or_more_error_lines
    return quantity(diagnosis.error_lines, "error line", or_more=more)


def meaning(code: Code) -> str:
    where = f"{code.evidence.file}:{code.evidence.line}"
    return f"{code.meaning or 'no meaning is documented'} ({times(code)} x, first {where})"


def paste(diagnosis: Diagnosis, say: Callable[[str], str] = str) -> str:
    """A text for a bug report on an uncatalogued error."""
    return "\n".join(one_line(row) for row in _describe_paste(diagnosis, say))


def _describe_paste(diagnosis: Diagnosis, say: Callable[[str], str]) -> Iterator[str]:
    yield f"ascend-doctor {diagnosis.tool_version}: {say(diagnosis.outcome)}"
    ranks = spans(diagnosis.ranks)
    yield say(f"logs: {diagnosis.logs}, lines: {diagnosis.lines}, ranks: {ranks}")
    if diagnosis.first_error:
        yield f"{say('first')}: {show(diagnosis.first_error)}"
    for unexplained in diagnosis.unexplained:
        often = say(times(unexplained))
        yield f"{say(unexplained.kind)} ({often} x): {show(unexplained.evidence)}"
    for code in diagnosis.codes[:_CODES]:
        yield f"{say('code')} {code.code}: {say(meaning(code))}"


def as_report(diagnosis: Diagnosis, fail_on: Level) -> Report:
    """The same for formats of findings: JUnit, SARIF and the like."""
    findings = (*_findings(diagnosis), *diagnosis.now)
    counted = verdict(findings, fail_on=fail_on)
    return Report(
        tool_version=diagnosis.tool_version,
        taken_at="",
        host="",
        python="",
        device="",
        simulated=False,
        redacted=diagnosis.redacted,
        levels=(),
        verdict=counted,
        findings=findings,
        notices=_notices(diagnosis),
        snapshot=Snapshot(redacted=diagnosis.redacted),
        seconds=diagnosis.seconds,
    )


def _notices(diagnosis: Diagnosis) -> tuple[str, ...]:
    verdict = diagnosis.verdict
    if verdict is None or diagnosis.outcome in NO_VERDICT:
        return ()
    attempts = tuple(
        f"Other run: {describe_attempt(attempt)}" for attempt in verdict.attempts[-_ATTEMPTS:]
    )
    return (f"Verdict: {say_verdict(verdict)}", *attempts)


def _blame(diagnosis: Diagnosis | None) -> str:
    if diagnosis is None:
        return ""
    if diagnosis.guilty:
        return f" Guilty: {diagnosis.guilty.reason}."
    return f" Guilty: could not tell: {diagnosis.undecided}." if diagnosis.undecided else ""


def _findings(diagnosis: Diagnosis) -> Iterator[Finding]:
    for number, cause in enumerate(diagnosis.causes):
        guilty = diagnosis.guilty if number == 0 else None
        yield Finding(
            check=cause.id,
            level=Level.ERROR if cause.severity == "fatal" else Level.WARNING,
            title=cause.title,
            observed="\n".join(show(evidence) for evidence in cause.evidence),
            because=cause.cause + _blame(diagnosis if number == 0 else None),
            remedy=Remedy(summary=cause.fix),
            refs=cause.sources,
            ranks=guilty.ranks if guilty else cause.ranks,
        )
    if diagnosis.stall:
        yield Finding(
            check="stall",
            level=Level.ERROR if diagnosis.stall.absent else Level.UNKNOWN,
            title=f"The launch stalled: {stall_title(diagnosis.stall)}",
            observed="\n".join(text for _, text in stall_rows(diagnosis.stall)),
            ranks=tuple(rank.rank for rank in diagnosis.stall.absent),
        )
    for unexplained in diagnosis.unexplained:
        yield Finding(
            check="unknown-error",
            level=Level.UNKNOWN,
            title="An error that is not in the catalogue",
            observed=show(unexplained.evidence),
            ranks=unexplained.ranks,
        )
    if diagnosis.without_log:
        yield Finding(
            check="diagnose",
            level=Level.UNKNOWN,
            title=f"There is no log of rank {spans(diagnosis.without_log)}, which the run had",
            ranks=diagnosis.without_log,
        )
    elif shows_no_work(diagnosis):
        yield Finding(check="diagnose", level=Level.UNKNOWN, title=_NO_WORK)
    elif _got_over_failure(diagnosis):
        yield Finding(
            check="diagnose",
            level=Level.UNKNOWN,
            title=_SURVIVED,
            observed="\n".join(show(line) for line in diagnosis.outlived),
        )
    elif not (diagnosis.causes or diagnosis.unexplained or diagnosis.stall):
        yield Finding(check="diagnose", level=Level.OK, title="Nothing known was found")
