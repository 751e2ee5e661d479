"""A diagnosis as a page of its own: the root cause first, and a timeline of the ranks."""

import itertools

from ascend_doctor import language
from ascend_doctor.diagnosis.result import Diagnosis
from ascend_doctor.render.diagnosis import (
    describe_attempt,
    describe_guilty,
    describe_outlived,
    describe_run,
    describe_work,
    meaning,
    not_told,
    own_error,
    paste,
    say_outcome,
    say_verdict,
    times,
)
from ascend_doctor.render.formats.html import page, parts
from ascend_doctor.render.rank_rows import rank_rows
from ascend_doctor.render.stall import stall_rows, stall_title


def render(diagnosis: Diagnosis, *, next_step: str = "") -> str:
    """One self-contained page, as of a report; with what to type if no cause is known."""
    level, title = say_outcome(diagnosis)
    stall = diagnosis.stall
    rows = list(stall_rows(stall, every=True)) if stall else []
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
        rows=rank_rows(diagnosis),
        times=times,
        paste=paste(diagnosis, language.say),
        next_step=next_step,
        codes=[(code.code, meaning(code)) for code in diagnosis.codes],
        **parts(),
    )
