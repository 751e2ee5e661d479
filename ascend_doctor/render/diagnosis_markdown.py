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
    say_outcome,
    say_verdict,
    show,
    times,
)
from ascend_doctor.render.formats.markdown import fence, plain, table
from ascend_doctor.render.rank_rows import RankRow, rank_rows
from ascend_doctor.render.stall import stall_rows, stall_title

_ROWS = 64  # of ranks; a table that nobody scrolls through


def render(diagnosis: Diagnosis) -> str:
    """Headings, lists and a table of the ranks."""
    return "\n".join(_rows(diagnosis)) + "\n"


def _rows(diagnosis: Diagnosis) -> Iterator[str]:
    level, title = say_outcome(diagnosis)
    yield f"## {level.value}: {plain(title)}"
    yield ""
    if diagnosis.verdict and diagnosis.outcome not in NO_VERDICT:
        yield from (f"**Verdict: {plain(say_verdict(diagnosis.verdict))}**", "")
    yield from (plain(f"ascend-doctor {diagnosis.tool_version} · {describe_run(diagnosis)}"), "")
    own = own_error(diagnosis)
    if own:
        yield from (
            *(f"### Root cause: {OWN_ERROR}", ""),
            f"- Guilty: {plain(describe_guilty(diagnosis))}",
            *(f"- Found: {plain(show(own.evidence))}", ""),
        )
    for number, cause in enumerate(diagnosis.causes):
        yield from _cause(cause, None if number or own else diagnosis, follows=not number)
    if diagnosis.stall:
        yield from (f"### Stalled: {plain(stall_title(diagnosis.stall))}", "")
        pairs = stall_rows(diagnosis.stall)
        yield from (f"- {label}: {plain(text)}" if label else f"  - {plain(text)}"
                    for label, text in pairs)  # fmt: skip
        yield ""
    if errors := not_told(diagnosis):
        yield from (
            f"### Not explained: {error_lines(diagnosis)} that the catalogue does not know",
            "",
        )
        if not diagnosis.causes and (guilty := describe_guilty(diagnosis)):
            yield f"- Guilty: {plain(guilty)}"
        yield from (f"- {times(error)} x {plain(show(error.evidence))}" for error in errors)
        yield ""
    for note in filter(None, (describe_outlived(diagnosis), describe_work(diagnosis))):
        yield from (plain(note), "")
    yield from _ranks(rank_rows(diagnosis))
    yield from _rest(diagnosis)


def _cause(cause: Cause, diagnosis: Diagnosis | None, *, follows: bool) -> Iterator[str]:
    word = f"Also {cause.severity}"
    if follows:
        word = "Root cause" if diagnosis else "What followed"
    yield from (f"### {word}: {plain(say(cause.title))}", "")
    if diagnosis and (guilty := describe_guilty(diagnosis)):
        yield f"- Guilty: {plain(guilty)}"
    yield from (f"- Found: {plain(show(line))}" for line in cause.evidence)
    yield f"- Because: {plain(say(cause.cause))}"
    yield f"- Fix: {plain(say(cause.fix))}"
    if cause.caught_by or cause.before:
        checks = " ".join(f"--only {check}" for check in cause.caught_by)
        before = f"ascend-doctor check {checks}" if checks else say(cause.before)
        yield f"- Before: {plain(before)}"
    yield f"- Entry: `{cause.id}`"
    if cause.consequences:
        yield from ("", "<details><summary>What followed from it</summary>", "")
        yield from (
            f"- {plain(say(what.title))} (`{what.id}`), {lines_of(what)}"
            for what in cause.consequences
        )
        yield from ("", "</details>")
    yield ""


def _ranks(rows: list[RankRow]) -> Iterator[str]:
    if not rows:
        return
    yield from ("### Ranks", "")
    cells = (
        (
            row.name,
            row.state + (f" for {', '.join(row.waits_for)}" if row.waits_for else ""),
            "" if row.after is None else f"+{row.after:.1f} s",
            row.text,
            f"{row.evidence.file}:{row.evidence.line}" if row.evidence else "",
        )
        for row in rows[:_ROWS]
    )
    yield from table(("", "state", "after the first failure", "what", "where"), cells)
    if len(rows) > _ROWS:
        yield from ("", f"and {quantity(len(rows) - _ROWS, 'other row')}")
    yield ""


def _rest(diagnosis: Diagnosis) -> Iterator[str]:
    if diagnosis.verdict and diagnosis.verdict.attempts:
        yield from ("### Other attempts", "")
        yield from (
            f"1. {plain(describe_attempt(attempt))}" for attempt in diagnosis.verdict.attempts
        )
        yield ""
    if diagnosis.now:
        yield from ("### This machine now", "")
        yield from (
            f"- {now.level.value}: {plain(now.title)} (`{now.check}`)" for now in diagnosis.now
        )
        yield ""
    if diagnosis.codes:
        yield from ("<details><summary>Error codes</summary>", "")
        yield from (f"- `{code.code}`: {plain(meaning(code))}" for code in diagnosis.codes)
        yield from ("", "</details>", "")
    if diagnosis.paste and diagnosis.unexplained and not diagnosis.causes:
        yield from ("### For a bug report", "", *fence(diagnosis.paste), "")
    for log in diagnosis.not_read:
        yield f"- not read: {plain(log.name)}: {plain(log.reason)}"
    if diagnosis.redacted:
        yield "Names and addresses are pseudonyms; --no-redact shows them."
