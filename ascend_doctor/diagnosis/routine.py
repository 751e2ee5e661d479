"""What a rank calls again and again, and where it leaves its routine."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from ascend_doctor.diagnosis.recorder import RankTrace, TracedCall

Token = tuple[object, ...]
Departure = Literal["never", "not after this"]

_CONTEXT = 8
# Calls before the first unended one to look at as well.
_BEFORE = 2


def find_departures(
    traces: Mapping[int, RankTrace], ranks: Sequence[int]
) -> dict[int, tuple[Departure, TracedCall]]:
    """Of these ranks those that left their routine in their latest calls, and the first such call.

    "never": this call never came after the one before it, in the rank's own calls or, if it has
    none like it, in those of others. "not after this": it did, but after other calls before that.
    """
    tokens = {rank: tuple(_tokens(trace)) for rank, trace in traces.items()}
    departures = {}
    for rank in ranks:
        calls = traces[rank].calls
        first = next((i for i, call in enumerate(calls) if not call.done), len(calls))
        others = [tokens[other] for other in tokens if other != rank]
        graded = [
            (grade, calls[i])
            for i in range(
                max(first - _BEFORE, _together(traces[rank], first, ranks), 1), len(calls)
            )
            if (grade := _grade(tokens[rank], i, others))
        ]
        # A new call weighs more than a place in a longer round.
        graded.sort(key=lambda departure: departure[0] != "never")
        if graded:
            departures[rank] = graded[0]
    return departures


def _together(trace: RankTrace, first: int, ranks: Sequence[int]) -> int:
    """Where the calls begin after the last one that ended with all of these ranks in it."""
    return next(
        (
            i + 1
            for i in range(first - 1, -1, -1)
            if not (call := trace.calls[i]).p2p
            and call.group in trace.groups
            and {*ranks} <= {*trace.groups[call.group].ranks}
        ),
        0,
    )


def _grade(own: Sequence[Token], i: int, others: Sequence[Sequence[Token]]) -> Departure | None:
    context = own[max(0, i - _CONTEXT) : i]
    for histories in ([own[:i]], others):
        followers = _followers(context, histories)
        if followers:
            if own[i] in followers[0]:
                return None
            return "not after this" if own[i] in followers[-1] else "never"
    return None


def _followers(context: Sequence[Token], histories: Sequence[Sequence[Token]]) -> list[set[Token]]:
    followers: list[set[Token]] = []
    for size in range(len(context), 0, -1):
        part = tuple(context[-size:])
        seen = {
            history[i + size]
            for history in histories
            for i in range(len(history) - size)
            if tuple(history[i : i + size]) == part
        }
        if seen and (not followers or size == 1):
            followers.append(seen)
    return followers


def _tokens(trace: RankTrace) -> Iterator[Token]:
    """Calls in a form that is equal on ranks of the same program."""
    size = max((len(group.ranks) for group in trace.groups.values()), default=0)
    alike: dict[tuple[int, str], list[str]] = {}
    for name in sorted(trace.groups, key=lambda name: (len(name), name)):
        group = trace.groups[name]
        alike.setdefault((len(group.ranks), group.title), []).append(name)
    for call in trace.calls:
        own = trace.groups.get(call.group)
        role: tuple[object, ...] = (call.group,)
        if own and len(own.ranks) < size:
            key = (len(own.ranks), own.title)
            role = (*key, alike[key].index(call.group))
        yield (role, call.operation, call.p2p)
