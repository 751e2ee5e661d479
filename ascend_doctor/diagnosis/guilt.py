"""Which rank or node began it. A time-out names its victim: whoever waited prints it."""

from __future__ import annotations

from ascend_doctor.diagnosis.ledger import Ledger, Seen, Sighting, earliest
from ascend_doctor.diagnosis.result import Evidence, Guilt
from ascend_doctor.stacks import KnownFailure

_TEXT = 400
# Ranks that wait with the same time-out and began together report it within this many seconds;
# the run's own start is never that even, so less than this says nothing.
_APART = 30.0


def evidence(sighting: Sighting) -> Evidence:
    """A line as it is shown."""
    text = sighting.text
    return Evidence(
        file=sighting.file,
        line=sighting.line,
        text=text if len(text) <= _TEXT else f"{text[:_TEXT]}...",
        rank=sighting.origin.rank,
        node=sighting.origin.node,
        process=sighting.origin.process,
        time=sighting.moment.text if sighting.moment else "",
    )


def guilty(ledger: Ledger, root: KnownFailure | None, seen: Seen | None) -> Guilt | None:
    """Who began it, None where the logs cannot tell. ``seen`` is where the root cause stands."""
    if root is None or seen is None:
        return _by_summary(ledger) or _first_raised(ledger)
    if not root.victim:
        return _shown_by(ledger, seen)
    return (
        _named(ledger)
        or _raised_elsewhere(ledger, seen)
        or _by_summary(ledger)
        or _chain(ledger)
        or _silent(ledger, seen)
        or _last_to_come(seen)
    )


def _of(sighting: Sighting, reason: str, *, sure: bool = True) -> Guilt | None:
    origin = sighting.origin
    if not origin.named:
        return None
    return Guilt(
        ranks=() if origin.rank is None else (origin.rank,),
        nodes=(origin.node,) if origin.node else (),
        processes=(origin.process,) if origin.process and origin.rank is None else (),
        reason=reason,
        sure=sure,
        evidence=evidence(sighting),
    )


def _shown_by(ledger: Ledger, seen: Seen) -> Guilt | None:
    """Who shows a failure that is not a time-out; all of them where all do."""
    ranks = seen.ranks
    if len(ranks) > 1 and (len(ranks) >= len(ledger.ranks) or not seen.first.moment):
        told = "every rank" if len(ranks) >= len(ledger.ranks) else f"{len(ranks)} ranks"
        return Guilt(
            ranks=tuple(sorted(ranks)),
            nodes=tuple(sorted({one.node for one in seen.by_origin if one.node})),
            reason=f"{told} show it: the cause is common to them",
            evidence=evidence(seen.first),
        )
    alone = len(seen.by_origin) == 1 and not ledger.ranks and not ledger.nodes
    return None if alone else _of(seen.first, "it is the first that shows the cause")


def _named(ledger: Ledger) -> Guilt | None:
    """HCCL itself says who did not come, or whose heartbeat stopped."""
    if ledger.absent:
        reason = "HCCL's root rank lists them as never connected (Failed to connect agent)"
        return Guilt(ranks=tuple(sorted(ledger.absent)), reason=reason)
    first = earliest(one.first for one in ledger.lost.values())
    if first is None:
        return None
    place = next(name for name, one in ledger.lost.items() if one.first == first)
    return Guilt(
        nodes=(place,),
        reason="the other ranks lost its heartbeat first; it is named as address/device",
        evidence=evidence(first),
    )


def _raised_elsewhere(ledger: Ledger, seen: Seen) -> Guilt | None:
    """Another rank, or this one before, ended with an error of its own."""
    own = earliest(
        sighting
        for kind in (*ledger.exceptions.values(), *ledger.deaths.values())
        for sighting in kind.by_origin.values()
        if sighting.origin.named
        and (
            sighting.origin not in seen.by_origin
            or sighting.before(seen.by_origin[sighting.origin])
        )
    )
    return _of(own, "it failed with an error of its own, the others waited for it") if own else None


def _by_summary(ledger: Ledger) -> Guilt | None:
    """The summary of torchrun names the process that failed first."""
    ended = ledger.ended
    if ended is None or ended.rank is None:
        return None
    killed = (
        f" (killed by signal {-ended.code})" if ended.code is not None and ended.code < 0 else ""
    )
    return Guilt(
        ranks=(ended.rank,),
        nodes=(ended.node,) if ended.node else (),
        reason=f"torchrun saw it fail first{killed}",
        evidence=evidence(ended.sighting),
    )


def _chain(ledger: Ledger) -> Guilt | None:
    """Follow who waits for whom to those that wait for nobody.

    hicann/hccl: docs/zh/user_guide/fault_diagnosis/param_link_stage.md.
    """
    waiting = {one for one, _ in ledger.waits}
    ends = sorted({other for _, other in ledger.waits} - waiting)
    if not ends:
        return None
    return Guilt(
        ranks=tuple(ends),
        reason="the others wait for it, and it reports to wait for nobody",
        sure=False,
    )


def _silent(ledger: Ledger, seen: Seen) -> Guilt | None:
    """The few ranks that do not report the time-out that the others report."""
    every = set(range(ledger.world_size)) if ledger.world_size else set(ledger.ranks)
    silent = every - seen.ranks
    if not seen.ranks or not silent or len(silent) >= len(seen.ranks):
        return None
    return Guilt(
        ranks=tuple(sorted(silent)),
        reason=f"{len(seen.ranks)} of {len(every)} ranks report the time-out, these do not",
        sure=False,
    )


def _last_to_come(seen: Seen) -> Guilt | None:
    """All wait equally long, so who reports last began to wait last.

    hicann/hccl: docs/zh/user_guide/fault_diagnosis/task_exec_stage.md compares the times likewise.
    """
    timed = [one for one in seen.by_origin.values() if one.moment and one.origin.named]
    if len(timed) < 2:  # noqa: PLR2004 - one alone is no comparison
        return None
    stamps = [one.moment.seconds for one in timed if one.moment]
    apart = max(stamps) - min(stamps)
    if apart < _APART:
        return None
    last = max(timed, key=lambda one: one.moment.seconds if one.moment else 0.0)
    reason = f"it came to the collective last: the ranks report the time-out {apart:.0f} s apart"
    return _of(last, reason, sure=False)


def _first_raised(ledger: Ledger) -> Guilt | None:
    first = earliest(one.first for one in (*ledger.exceptions.values(), *ledger.deaths.values()))
    return _of(first, "its error is the first") if first else None
