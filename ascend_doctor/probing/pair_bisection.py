"""What nodes measured in pairs, and which node or link is guilty of it. Pure.

Nobody is accused for one observation: a node needs several partners with which it does badly and
which do well with others, a link two measurements and ends that do well with others.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from ascend_doctor.probe_records.pairs import PairRow, PairTable

Kind = Literal["failed", "wrong", "lossy", "slow"]

# The worst first. Only the first two count on a simulated device.
_KINDS: tuple[Kind, ...] = ("failed", "wrong", "lossy", "slow")
_OF_VALUES = _KINDS[:2]
# A lost message costs TCP's retransmission time, 0.2 s at least. A busy host holds messages up,
# and TCP sends a few again, but seldom both. HCCL and NCCL have no counters.
_STALLS = 2
_AGAIN, _AGAIN_SHARE = 4, 0.002
# Of the usual rate of nodes at their best. On the CPU all pairs share the cores of hosts.
_RATE_SHARE = {"cpu": 0.25}
_RATE_SHARE_DEVICE = 0.5
_LATE_FACTOR, _LATE_US = 5.0, 2000.0
_ENOUGH = 2
# Up to so many nodes all pairs are measured, and more than half of a node's must be bad.
_FEW, _OF_MANY = 8, 3


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """Two nodes and the result of all their measurements.

    ``outcome`` is fine, the worst kind (failed, wrong, lossy, slow), unsteady if measurements
    disagree, or untold. ``lost`` is the share of TCP segments sent again; the other figures are
    the best ones, None without any. ``times`` counts measurements.
    """

    nodes: tuple[str, str]
    outcome: str
    times: int
    us: float | None = None
    gbps: float | None = None
    lost: float | None = None
    why: str = ""


class Pairs(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes in the order of their numbers, and what was measured between them."""

    nodes: tuple[str, ...]
    pairs: tuple[Pair, ...]


class Accused(NamedTuple):
    """``guilty`` is one node or the two ends of a link; ``pairs`` are the evidence."""

    kind: Kind
    guilty: tuple[int, ...]
    pairs: tuple[tuple[int, int], ...]


class Judged(NamedTuple):
    """The accused, the unexplained pairs, and what is usual."""

    accused: tuple[Accused, ...]
    doubts: tuple[tuple[int, int], ...]
    gbps: float
    us: float


Marks = dict[tuple[int, int], list[bool]]


def judge_pairs(rows: Sequence[PairRow], *, device: str, simulated: bool = False) -> Judged:
    usual = _usual(rows)
    count = len({node for row in rows if row.outcome != "untold" for node in row.pair})
    partners = (count - 1) // 2 + 1 if count <= _FEW else _OF_MANY
    accused: list[Accused] = []
    doubts: dict[tuple[int, int], None] = {}
    for kind, marks in _mark(rows, usual, device=device, simulated=simulated).items():
        guilty, unclear = _blame(kind, marks, partners)
        accused += guilty
        doubts.update(dict.fromkeys(unclear))
    return Judged(tuple(accused), tuple(doubts), *usual)


def _mark(
    rows: Sequence[PairRow], usual: tuple[float, float], *, device: str, simulated: bool
) -> dict[Kind, Marks]:
    return {
        kind: _slow(rows, usual, device) if kind == "slow" else _marks(rows, kind)
        for kind in (_OF_VALUES if simulated else _KINDS)
    }


def _marks(rows: Iterable[PairRow], kind: Kind) -> Marks:
    marks: Marks = defaultdict(list)
    for row in rows:
        if row.outcome == kind:
            marks[row.pair].append(True)
        elif row.outcome == "ok" or (row.outcome, kind) == ("wrong", "failed"):
            marks[row.pair].append(kind == "lossy" and loses(row))
    return marks


def loses(row: PairRow) -> bool:
    """Whether messages were lost while small ones went to and fro, which fill no queue."""
    again = row.retransmitted >= max(_AGAIN, _AGAIN_SHARE * row.sent)
    # HCCL and NCCL also have connections of the host, with next to no traffic.
    by_tcp = row.sent >= max(row.messages, 1)
    return row.stalls >= _STALLS and (again or not by_tcp)


def _usual(rows: Sequence[PairRow]) -> tuple[float, float]:
    """Rate in GB/s and time in microseconds that half of the nodes reach; of many, a quarter.

    A good node with one good partner shows its limit, however many of its others are bad. Of
    many nodes with two partners each, twice as many as are slow may have only slow ones.
    """
    best: dict[int, float] = {}
    least: dict[int, float] = {}
    for row in rows:
        if row.outcome == "ok":
            for node in row.pair:
                best[node] = max(best.get(node, 0.0), row.gbps)
                least[node] = min(least.get(node, row.us), row.us)
    if not best:
        return 0.0, 0.0
    index = len(best) // (2 if len(best) <= _FEW else 4)
    return sorted(best.values(), reverse=True)[index], sorted(least.values())[index]


def _slow(rows: Sequence[PairRow], usual: tuple[float, float], device: str) -> Marks:
    """The best measurement of a pair counts: nothing makes a slow link look fast."""
    rate, us = usual
    share = _RATE_SHARE.get(device, _RATE_SHARE_DEVICE)
    marks: Marks = {}
    for pair, sound in _sound(rows).items():
        late = min(row.us for row in sound)
        thin = max(row.gbps for row in sound) < share * rate
        marks[pair] = [thin or (late > _LATE_FACTOR * us and late > us + _LATE_US)] * len(sound)
    return marks


def _sound(rows: Iterable[PairRow]) -> dict[tuple[int, int], list[PairRow]]:
    sound: dict[tuple[int, int], list[PairRow]] = {}
    for row in rows:
        if row.outcome == "ok":
            sound.setdefault(row.pair, []).append(row)
    return sound


def _blame(kind: Kind, marks: Marks, partners: int) -> tuple[list[Accused], list[tuple[int, int]]]:
    """Accused nodes, then links; and the bad pairs that neither explains.

    ``partners`` is with how many good nodes a guilty one does badly.
    """
    bad: defaultdict[int, set[int]] = defaultdict(set)
    fine: defaultdict[int, set[int]] = defaultdict(set)
    for (first, two), seen in marks.items():
        if len(set(seen)) == 1:
            graph = bad if seen[0] else fine
            graph[first].add(two)
            graph[two].add(first)
    accused = []
    for node in sorted(bad):
        good = sorted(node_ for node_ in bad[node] if fine[node_])
        if not fine[node] and len(good) >= partners:
            pairs = tuple((min(node, partner), max(node, partner)) for partner in good)
            accused.append(Accused(kind, (node,), pairs))
    nodes = {accusation.guilty[0] for accusation in accused}
    doubts = []
    for pair, seen in sorted(marks.items()):
        # A guilty node explains it, unless the other was tried with no good one.
        others = [node_ for node_ in pair if node_ not in nodes]
        if not any(seen) or (nodes & set(pair) and all(fine[other] for other in others)):
            continue
        cleared = all(len(fine[node_]) >= max(len(bad[node_] - nodes), 1) for node_ in pair)
        if all(seen) and len(seen) >= _ENOUGH and cleared and others == [*pair]:
            accused.append(Accused(kind, pair, (pair,)))
        else:
            doubts.append(pair)
    return accused, doubts


def matrix(
    table: PairTable, names: Sequence[str], *, device: str, simulated: bool = False
) -> Pairs:
    marks = _mark(table.pairs, _usual(table.pairs), device=device, simulated=simulated)
    by_pair: defaultdict[tuple[int, int], list[PairRow]] = defaultdict(list)
    for row in table.pairs:
        by_pair[row.pair].append(row)
    return Pairs(
        nodes=tuple(names),
        pairs=tuple(
            _pair(pair, rows, (names[pair[0]], names[pair[1]]), marks)
            for pair, rows in sorted(by_pair.items())
        ),
    )


def _pair(
    pair: tuple[int, int],
    rows: Sequence[PairRow],
    names: tuple[str, str],
    marks: Mapping[Kind, Marks],
) -> Pair:
    sound = [row for row in rows if row.outcome == "ok"]
    sent = sum(row.sent for row in sound)
    return Pair(
        nodes=names,
        outcome=_outcome([(kind, mark[pair]) for kind, mark in marks.items() if pair in mark]),
        times=len(rows),
        us=min((row.us for row in sound), default=None),
        gbps=max((row.gbps for row in sound), default=None),
        lost=sum(row.retransmitted for row in sound) / sent if sent else None,
        why=next((row.why for row in rows if row.why), ""),
    )


def _outcome(marks: Sequence[tuple[Kind, list[bool]]]) -> str:
    if not marks:
        return "untold"
    always = [kind for kind, seen in marks if all(seen)]
    if always:
        return always[0]
    return "unsteady" if any(any(seen) for _, seen in marks) else "fine"
