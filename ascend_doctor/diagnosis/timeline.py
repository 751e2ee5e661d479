"""What each rank's logs say first, whom it waits for, and the steps before: a page's timeline."""

from collections.abc import Iterable, Iterator, Mapping

from ascend_doctor.diagnosis.guilt import evidence
from ascend_doctor.diagnosis.ledger import Ledger, Occurrences, Sighting, earliest
from ascend_doctor.diagnosis.result import RankEvent, StepSeen
from ascend_doctor.diagnosis.waiting import Party

_RANKS = 4096


def rank_events(
    ledger: Ledger, known: Mapping[str, Occurrences]
) -> tuple[tuple[RankEvent, ...], tuple[StepSeen, ...]]:
    """First failures of ranks, the earliest first, and the last steps before, of a settled ledger.

    ``known`` are its failures by their id.
    """
    rows: dict[int, tuple[str, Sighting]] = {}
    for sightings in (_failures(ledger, known), _log_lines(ledger)):
        rows = {**_first_of_ranks(sightings), **rows}
    first = earliest(sighting for _, sighting in rows.values())
    start = first.moment.seconds if first and first.moment else None
    if not ledger.in_order(sighting for _, sighting in rows.values()):
        start = None
    waits = {party for party in ledger.waiting.edges if isinstance(party, int)}
    events = [
        RankEvent(
            rank=rank,
            failure=rows[rank][0] if rank in rows else "",
            evidence=evidence(rows[rank][1]) if rank in rows else None,
            after=_after(rows.get(rank), start),
            waits_for=tuple(_names(ledger.waiting.edges.get(rank, ()))),
        )
        for rank in {*rows, *waits}
    ]
    events.sort(key=lambda event: (event.after is None, event.after or 0.0, event.rank))
    return tuple(events), tuple(_steps(ledger, start))


def _steps(ledger: Ledger, start: float | None) -> Iterator[StepSeen]:
    for step, (node, at) in sorted(ledger.steps.items()):
        after = None
        if at is not None and start is not None:
            after = round(at.seconds - ledger.clocks.offsets.get(node, 0.0) - start, 3)
        yield StepSeen(step=step, after=after)


def _first_of_ranks(sightings: Iterable[tuple[str, Sighting]]) -> dict[int, tuple[str, Sighting]]:
    rows: dict[int, tuple[str, Sighting]] = {}
    for failure, sighting in sightings:
        rank = sighting.origin.rank
        if rank is None or (rank not in rows and len(rows) >= _RANKS):
            continue
        if rank not in rows or sighting.before(rows[rank][1]):
            rows[rank] = (failure, sighting)
    return rows


def _failures(ledger: Ledger, known: Mapping[str, Occurrences]) -> Iterator[tuple[str, Sighting]]:
    for failure, seen in known.items():
        yield from ((failure, sighting) for sighting in seen.by_origin.values())
    for kinds in (ledger.exceptions, ledger.deaths):
        for seen in kinds.values():
            yield from (("", sighting) for sighting in seen.by_origin.values())


def _log_lines(ledger: Ledger) -> Iterator[tuple[str, Sighting]]:
    for seen in ledger.logged.values():
        yield from (("", sighting) for sighting in seen.by_origin.values())


def _after(row: tuple[str, Sighting] | None, start: float | None) -> float | None:
    if row is None or start is None or row[1].moment is None:
        return None
    return round(row[1].moment.seconds - start, 3)


def _names(parties: Iterable[Party]) -> Iterator[str]:
    ranks = sorted(party for party in parties if isinstance(party, int))
    yield from map(str, ranks)
    yield from sorted(party for party in parties if isinstance(party, str))
