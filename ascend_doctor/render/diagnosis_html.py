"""A diagnosis as a page of its own: the root cause first, and a timeline of the ranks."""

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ascend_doctor import language
from ascend_doctor.diagnosis.result import Diagnosis, StepSeen
from ascend_doctor.findings import spans
from ascend_doctor.render.diagnosis import (
    describe_attempt,
    describe_guilty,
    describe_outlived,
    describe_run,
    describe_work,
    first_evidence,
    meaning,
    not_told,
    own_error,
    paste,
    say_outcome,
    say_verdict,
    times,
)
from ascend_doctor.render.formats.html import in_both_languages, page, parts
from ascend_doctor.render.rank_rows import RankRow, rank_rows
from ascend_doctor.render.stall import stall_rows, stall_title

# Where on a timeline the first failure is, behind steps; and how near dots are one, in per cent.
_FAILS, _NEAR = 30.0, 0.5


class Dot(NamedTuple):
    """Failures of ranks, or a step, ``at`` so many per cent of the timeline."""

    at: float
    text: str


class Timeline(NamedTuple):
    """``steps`` are those before the first failure; ``rows`` have the dots of each row of ranks."""

    steps: tuple[Dot, ...]
    rows: tuple[tuple[Dot, ...], ...]


def draw_timeline(rows: Sequence[RankRow], steps: Sequence[StepSeen]) -> Timeline:
    """One scale for all: steps at equal distances, then the seconds from the first failure."""
    before = [step for step in steps if (step.after or 0.0) <= 0]
    zero = _FAILS if before else 0.0
    longest = max((row.times[-1][0] for row in rows if row.times), default=0.0) or 1.0
    return Timeline(
        steps=tuple(
            Dot(
                zero * (number + 0.5) / len(before),
                f"step {step.step}" + (f" {step.after:+.1f} s" if step.after is not None else ""),
            )
            for number, step in enumerate(before)
        ),
        rows=tuple(tuple(_dots(row, zero, longest)) for row in rows),
    )


def _dots(row: RankRow, zero: float, longest: float) -> Iterator[Dot]:
    ranks_at: dict[float, list[int]] = {}
    times: dict[float, float] = {}
    for after, rank in row.times:
        at = round((zero + (100 - zero) * after / longest) / _NEAR) * _NEAR
        ranks_at.setdefault(at, []).append(rank)
        times.setdefault(at, after)
    for at, ranks in ranks_at.items():
        yield Dot(at, f"rank{'s' * (len(ranks) > 1)} {spans(ranks)} +{times[at]:.1f} s")


@in_both_languages
def render(diagnosis: Diagnosis, *, next_step: str = "") -> str:
    """One self-contained page, as of a report; with what to type if no cause is known."""
    level, title = say_outcome(diagnosis)
    stall = diagnosis.stall
    rows = list(stall_rows(stall, every=True)) if stall else []
    ranks = rank_rows(diagnosis)
    line = first_evidence(diagnosis)
    # The absent come first, and only a label separates them from the rest.
    accused = list(itertools.takewhile(lambda row: row[0] not in {"waiting", "stands"}, rows))
    return page("diagnosis.html").render(
        diagnosis=diagnosis,
        level=level,
        heading=title,
        about=describe_run(diagnosis, language.say),
        notes=filter(None, (describe_outlived(diagnosis), describe_work(diagnosis))),
        verdict=f"Verdict: {say_verdict(diagnosis.verdict)}" if diagnosis.verdict else "",
        attempts=[describe_attempt(attempt) for attempt in diagnosis.verdict.attempts]
        if diagnosis.verdict
        else [],
        guilty=describe_guilty(diagnosis, language.say),
        own=own_error(diagnosis),
        errors=not_told(diagnosis),
        stall_title=stall_title(stall) if stall else "",
        accused=accused,
        standing=rows[len(accused) :],
        rows=ranks,
        places={str(rank): row.ranks[0] for row in ranks for rank in row.ranks},
        timeline=draw_timeline(ranks, diagnosis.steps),
        first_line=line.line if line else 0,
        times=times,
        paste=paste(diagnosis, language.say),
        next_step=next_step,
        codes=[(code.code, meaning(code)) for code in diagnosis.codes],
        **parts(),
    )
