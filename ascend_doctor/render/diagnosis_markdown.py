"""A diagnosis as Markdown, for a bug report or a job's summary: the root cause first."""

from __future__ import annotations

from collections.abc import Iterator

from ascend_doctor.diagnosis.result import Cause, Diagnosis
from ascend_doctor.findings import quantity
from ascend_doctor.language import say
from ascend_doctor.render.diagnosis import (
    NO_VERDICT,
    OWN_ERROR,
    describe_attempt,
    describe_guilty,
    describe_outlived,
    describe_run,
    describe_work,
    error_lines,
    lines_of,
    meaning,
    not_told,
    own_error,
    paste,
    say_outcome,
    say_verdict,
    show,
    times,
)
from ascend_doctor.render.formats.markdown import fence, plain, table
from ascend_doctor.render.rank_rows import RankRow, rank_rows
from ascend_doctor.render.stall import stall_rows, stall_title

_ROWS = 64  # of ranks; a table that nobody scrolls through


def render(diagnosis: Diagnosis, *, next_step: str = "") -> str:
    """Headings, lists and a table of the ranks; ``next_step`` is to be typed where no cause is."""
    return "\n".join(_rows(diagnosis, next_step)) + "\n"


def _rows(diagnosis: Diagnosis, next_step: str) -> Iterator[str]:
    level, title = say_outcome(diagnosis)
    yield f"## {say(level.value)}: {plain(say(title))}"
    yield ""
    if diagnosis.verdict and diagnosis.outcome not in NO_VERDICT:
        yield from (f"**{plain(say(f'Verdict: {say_verdict(diagnosis.verdict)}'))}**", "")
    yield from (
        plain(f"ascend-doctor {diagnosis.tool_version} · {describe_run(diagnosis, say)}"),
        "",
    )
    own = own_error(diagnosis)
    if own:
        yield from (
            *(f"### {say('Root cause')}: {say(OWN_ERROR)}", ""),
            f"- {say('Guilty')}: {plain(describe_guilty(diagnosis, say))}",
            *(f"- {say('Found')}: {plain(show(own.evidence))}", ""),
        )
    for number, cause in enumerate(diagnosis.causes):
        yield from _cause(cause, None if number or own else diagnosis, follows=not number)
    if diagnosis.stall:
        yield from (f"### {plain(say(f'Stalled: {stall_title(diagnosis.stall)}'))}", "")
        pairs = stall_rows(diagnosis.stall)
        for label, text in pairs:
            yield f"- {say(label)}: {plain(say(text))}" if label else f"  - {plain(say(text))}"
        yield ""
    if errors := not_told(diagnosis):
        yield from (
            f"### {say('Not explained')}: {say(error_lines(diagnosis))}",
            "",
        )
        if not diagnosis.causes and (guilty := describe_guilty(diagnosis, say)):
            yield f"- {say('Guilty')}: {plain(guilty)}"
        yield from (f"- {say(times(error))} x {plain(show(error.evidence))}" for error in errors)
        yield ""
    for note in filter(None, (describe_outlived(diagnosis), describe_work(diagnosis))):
        yield from (plain(say(note)), "")
    if next_step:
        yield from (f"### {say('Type next')}", "", *fence(next_step, "bash"), "")
    yield from _ranks(rank_rows(diagnosis))
    yield from _rest(diagnosis)


def _cause(cause: Cause, diagnosis: Diagnosis | None, *, follows: bool) -> Iterator[str]:
    word = "also fatal" if cause.severity == "fatal" else "also degraded"
    if follows:
        word = "Root cause" if diagnosis else "What followed"
    yield from (f"### {say(word).capitalize()}: {plain(say(cause.title))}", "")
    if diagnosis and (guilty := describe_guilty(diagnosis, say)):
        yield f"- {say('Guilty')}: {plain(guilty)}"
    yield from (f"- {say('Found')}: {plain(show(line))}" for line in cause.evidence)
    yield f"- {say('Why')}: {plain(say(cause.cause))}"
    yield f"- {say('Fix')}: {plain(say(cause.fix))}"
    if cause.caught_by or cause.before:
        checks = " ".join(f"--only {check}" for check in cause.caught_by)
        before = f"ascend-doctor check {checks}" if checks else say(cause.before)
        yield f"- {say('Prevent')}: {plain(before)}"
    yield f"- {say('Entry')}: `{cause.id}`"
    if cause.consequences:
        yield from ("", f"<details><summary>{say('What followed from it')}</summary>", "")
        yield from (
            f"- {plain(say(what.title))} (`{what.id}`), {say(lines_of(what))}"
            for what in cause.consequences
        )
        yield from ("", "</details>")
    yield ""


def _ranks(rows: list[RankRow]) -> Iterator[str]:
    if not rows:
        return
    yield from (f"### {say('Ranks')}", "")
    cells = (
        (
            say(row.name),
            _state(row),
            "" if row.after is None else f"+{row.after:.1f} s",
            say(row.text),
            f"{row.evidence.file}:{row.evidence.line}" if row.evidence else "",
        )
        for row in rows[:_ROWS]
    )
    head = (say("state"), say("after the first failure"), say("what it says"), say("file and line"))
    yield from table(("", *head), cells)
    if len(rows) > _ROWS:
        yield from ("", say(f"and {quantity(len(rows) - _ROWS, 'other row')}"))
    yield ""


def _state(row: RankRow) -> str:
    if not row.waits_for:
        return say(row.state)
    others = ", ".join(row.waits_for)
    return f"{say('waits for')} {others}"


def _rest(diagnosis: Diagnosis) -> Iterator[str]:
    if diagnosis.verdict and diagnosis.verdict.attempts:
        yield from (f"### {say('Other attempts')}", "")
        yield from (
            f"1. {plain(say(describe_attempt(attempt)))}" for attempt in diagnosis.verdict.attempts
        )
        yield ""
    if diagnosis.now:
        yield from (f"### {say('This machine now')}", "")
        yield from (
            f"- {say(now.level.value)}: {plain(say(now.title))} (`{now.check}`)"
            for now in diagnosis.now
        )
        yield ""
    if diagnosis.codes:
        yield from (f"<details><summary>{say('Error codes')}</summary>", "")
        yield from (f"- `{code.code}`: {plain(say(meaning(code)))}" for code in diagnosis.codes)
        yield from ("", "</details>", "")
    if diagnosis.paste and diagnosis.unexplained and not diagnosis.causes:
        yield from (f"### {say('For a bug report')}", "", *fence(paste(diagnosis, say)), "")
    for log in diagnosis.not_read:
        yield f"- {say('Not read')}: {plain(log.name)}: {plain(say(log.reason))}"
    if diagnosis.redacted:
        yield say("Names and addresses are pseudonyms; --no-redact shows them.")
