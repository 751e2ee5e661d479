"""A stall in words: who waits, in what, who did not come, and where each stands."""

from collections.abc import Iterator

from ascend_doctor.diagnosis.stall_result import (
    AbsentRank,
    Mismatch,
    MismatchedCall,
    Stall,
    WaitingRanks,
)
from ascend_doctor.findings import quantity, spans

# The ranks of one machine of 16 NPUs; --verbose has all.
_SHOWN = 16
_WAITS = 6


def stall_title(stall: Stall) -> str:
    """One sentence: who to look at, or that it is unknown."""
    if not stall.absent:
        return f"could not tell which rank the others wait for: {stall.undecided}"
    first = stall.absent[0]
    ranks = f"rank{'s' * (len(stall.absent) > 1)} {spans(r.rank for r in stall.absent)}"
    if first.kind == "other call":
        return f"{ranks} called something else than the others wait in"
    if first.kind == "working":
        return f"{ranks} still {'work' if len(stall.absent) > 1 else 'works'}; the others wait"
    return f"{ranks} did not come"


def stall_rows(stall: Stall, *, every: bool = False) -> Iterator[tuple[str, str]]:
    """Labels and texts, the absent first; ``every``: all ranks' lines, not the first few."""
    for rank in stall.absent[: None if every else _SHOWN]:
        yield from _absent(rank)
    if stall.mismatch:
        yield from mismatch_rows(stall.mismatch)
    waiting = stall.waiting if every else stall.waiting[:_WAITS]
    for number, waits in enumerate(waiting):
        yield "" if number else "waiting", _waiting(waits)
    if len(waiting) < len(stall.waiting):
        yield "", f"and {quantity(len(stall.waiting) - len(waiting), 'other collective')}"
    rows: dict[tuple[str, float], list[int]] = {}
    for position in stall.positions:
        rows.setdefault((position.line, position.age), []).append(position.rank)
    # Places with few ranks come first: others may wait for them.
    ordered = sorted(rows.items(), key=lambda row: (len(row[1]), row[1]))
    for number, ((line, age), ranks) in enumerate(ordered[: None if every else _SHOWN]):
        last = f" (last seen {age:.1f} s before)" if age else ""
        yield "" if number else "stands", f"{_ranks(ranks)} at {line}{last}"


def mismatch_rows(mismatch: Mismatch) -> Iterator[tuple[str, str]]:
    """The calls that do not fit, and the earlier ones from which the ranks' lines differ."""
    ranks = mismatch.group_ranks
    who = _ranks(ranks) if len(ranks) <= _SHOWN else f"{len(ranks)} ranks"
    group = f"{mismatch.group} ({who})"
    yield "differ", f"call number {mismatch.number} of {group}"
    for call in mismatch.calls:
        yield "", _call(call)
    if mismatch.parted:
        yield "before", "the first call of this group that ranks make at different lines"
        for call in mismatch.parted:
            yield "", _call(call)


def _call(call: MismatchedCall) -> str:
    line = f", called at {call.line}" if call.line else ""
    size = f" with {call.agreed}" if call.agreed else ""
    return f"{_ranks(call.ranks)}: {call.operation}{size}{line}"


def _absent(rank: AbsentRank) -> Iterator[tuple[str, str]]:
    yield "guilty", f"rank {rank.rank}: {rank.reason}"
    if rank.call:
        yield "", f"called at {rank.call}"
    if rank.line:
        yield "", f"stands at {rank.line}"
    for line in rank.helpers:
        yield "", f"its helper process stands at {line}"


def _waiting(waits: WaitingRanks) -> str:
    group = f"{waits.group} ({_ranks(waits.group_ranks)})" if waits.group_ranks else waits.group
    line = f", called at {waits.line}" if waits.line else ""
    return (
        f"{_ranks(waits.ranks)} {'waits' if len(waits.ranks) == 1 else 'wait'} in "
        f"{waits.operation} number {waits.number} of {group}{line}"
    )


def _ranks(ranks: tuple[int, ...] | list[int]) -> str:
    return f"rank{'s' * (len(ranks) != 1)} {spans(ranks)}"
