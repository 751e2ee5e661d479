"""Ranks of a diagnosis as rows: who failed first, who waits for whom, of whom nothing is known."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from ascend_doctor.diagnosis.result import Diagnosis, Evidence, RankEvent
from ascend_doctor.diagnosis.stall_result import AbsentRank, WaitingRanks
from ascend_doctor.findings import Level, spans

RankState = Literal[
    "guilty", "failed", "waits", "stopped", "ended", "called something else", "did not come",
    "nothing known", "no failure",
]  # fmt: skip


class RankRow(NamedTuple):
    """Ranks in the same state.

    ``times`` are the seconds from the run's first failure to that of each rank, if the clocks
    say; ``waits_for`` are numbers of ranks, or names.
    """

    ranks: tuple[int, ...]
    state: RankState
    level: Level
    text: str
    evidence: Evidence | None = None
    times: tuple[tuple[float, int], ...] = ()
    waits_for: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"rank{'s' * (len(self.ranks) > 1)} {spans(self.ranks)}"


def rank_rows(diagnosis: Diagnosis) -> list[RankRow]:
    """The guilty first, then by time, healthy ones last; equal ones are one."""
    alike: dict[tuple[object, ...], list[RankRow]] = {}
    for row in sorted(_single_rows(diagnosis), key=_order):
        alike.setdefault((row.state, row.level, row.text, row.waits_for), []).append(row)
    rows = [
        same[0]._replace(
            ranks=tuple(sorted(rank for row in same for rank in row.ranks)),
            times=tuple(sorted(time for row in same for time in row.times)),
        )
        for same in alike.values()
    ]
    return sorted(rows, key=_order)


def _order(row: RankRow) -> tuple[object, ...]:
    return (-row.level.rank, not row.times, row.times, row.ranks)


def _single_rows(diagnosis: Diagnosis) -> Iterator[RankRow]:
    events = {event.rank: event for event in diagnosis.timeline}
    stall = diagnosis.stall
    absent = {rank.rank: rank for rank in stall.absent} if stall else {}
    waiting = {rank: waits for waits in stall.waiting for rank in waits.ranks} if stall else {}
    silent = {*diagnosis.without_log, *(stall.silent if stall else ())}
    titles = {cause.id: cause.title for cause in diagnosis.causes}
    titles |= {what.id: what.title for cause in diagnosis.causes for what in cause.consequences}
    guilty = diagnosis.guilty.ranks if diagnosis.guilty else ()
    numbers = {*diagnosis.ranks, *events, *absent, *waiting, *silent, *guilty}
    for rank in numbers | {*(stall.ranks if stall else ())}:
        # A stall's data says more of a rank than its log's last line.
        if rank in absent:
            yield _absent_row(absent[rank])
        elif rank in waiting:
            yield _waiting_row(rank, waiting[rank])
        elif rank in silent:
            text = "no file or log says anything of it"
            yield RankRow((rank,), "nothing known", Level.UNKNOWN, text)
        elif rank in events:
            yield _event_row(events[rank], diagnosis, titles, guilty=rank in guilty)
        elif rank in guilty and diagnosis.guilty:
            yield RankRow((rank,), "guilty", Level.ERROR, diagnosis.guilty.reason)
        else:
            yield RankRow((rank,), "no failure", Level.SKIPPED, "")


def _absent_row(rank: AbsentRank) -> RankRow:
    state: dict[str, RankState] = {
        "stopped": "stopped",
        "gone": "ended",
        "other call": "called something else",
    }
    where = f"; stands at {rank.line}" if rank.line else ""
    call = f"; called at {rank.call}" if rank.call else ""
    return RankRow(
        (rank.rank,),
        state.get(rank.kind, "did not come"),
        Level.ERROR,
        f"{rank.reason}{call}{where}",
    )


def _waiting_row(rank: int, waits: WaitingRanks) -> RankRow:
    return RankRow(
        (rank,),
        "waits",
        Level.WARNING,
        f"in {waits.operation} number {waits.number} of {waits.group}",
        waits_for=tuple(str(other) for other in waits.waits_for if other != rank),
    )


def _event_row(
    event: RankEvent, diagnosis: Diagnosis, titles: dict[str, str], *, guilty: bool
) -> RankRow:
    root = diagnosis.causes[0].id if diagnosis.causes else ""
    state: RankState = "failed"
    level = Level.WARNING
    if guilty:
        state, level = "guilty", Level.ERROR
    elif event.waits_for:
        state = "waits"
    elif event.failure == root and not diagnosis.guilty and not event.waits_for:
        level = Level.ERROR
    line = event.evidence.text if event.evidence else ""
    return RankRow(
        (event.rank,),
        state,
        level,
        titles.get(event.failure, line),
        evidence=event.evidence,
        times=() if event.after is None else ((event.after, event.rank),),
        waits_for=event.waits_for,
    )
