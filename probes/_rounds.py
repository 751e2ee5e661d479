"""Which nodes measure with each other next. Pure: a table of what was measured in, pairs out.

A row of the table is a mapping with ``pair``, ``outcome`` (ok, wrong, failed, untold) and what an
ok one measured. Few nodes meet all others. Many begin with two partners each. Whatever stands out
is measured again, its ends with nodes that do well, until each is accused or cleared by several.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

ALL_PAIRS = 8  # nodes up to which every pair is measured
# A tournament of all is a round a node; two rounds show whom to look at again.
FIRST_ROUNDS = 2
MORE_ROUNDS = 8
# What is measured again, by the same limits by which the check accuses.
STALLS, SENT_AGAIN, SENT_AGAIN_SHARE = 2, 4, 0.002
RATE_SHARE = {"cpu": 0.25, "npu": 0.5, "cuda": 0.5}
LATE_FACTOR, LATE_US = 5.0, 2000.0
ENOUGH = 2  # partners that a node does well with, or measurements of a link
ENOUGH_OF_MANY = 3
# Stages of a rank that say nothing about links.
INFRASTRUCTURE = ("start", "device", "store")

Pair = tuple[int, int]
Row = Mapping[str, Any]
Kinds = dict[str, bool]


def most_rounds(count: int) -> int:
    """Of how many rounds the schedule of so many nodes is at most."""
    return _base(count) + MORE_ROUNDS


def enough(count: int) -> int:
    """With how many partners a node must do badly to be guilty: more than half of the others."""
    return (count - 1) // 2 + 1 if count <= ALL_PAIRS else ENOUGH_OF_MANY


def _base(count: int) -> int:
    return count - 1 + count % 2 if count <= ALL_PAIRS else FIRST_ROUNDS


def tournament(nodes: Sequence[int], number: int) -> list[Pair]:
    """Disjoint pairs; over the rounds every node meets every other one once (circle method)."""
    ring: list[int | None] = [*nodes, *([None] if len(nodes) % 2 else [])]
    # The first node stays, the others turn by one seat a round.
    turn = number % (len(ring) - 1)
    ring = [ring[0], *ring[len(ring) - turn :], *ring[1 : len(ring) - turn]]
    half = len(ring) // 2
    return [
        (min(left, right), max(left, right))
        for left, right in zip(ring[:half], reversed(ring[half:]), strict=True)
        if left is not None and right is not None
    ]


def next_pairs(nodes: Sequence[int], number: int, table: Iterable[Row], device: str) -> list[Pair]:
    """The pairs of round ``number``, from 0; none where nothing is left to be measured."""
    graphs = PairGraphs(table, enough(len(nodes)), RATE_SHARE[device])
    if number < _base(len(nodes)):
        return [pair for pair in tournament(nodes, number) if not graphs.is_decided(pair)]
    if number >= most_rounds(len(nodes)):
        return []
    chosen: list[Pair] = []
    busy: set[int] = set()
    for node, other in graphs.choose(nodes):
        if node not in busy and other not in busy:
            chosen.append((min(node, other), max(node, other)))
            busy |= {node, other}
    return chosen


class PairGraphs:
    """What was measured, as graphs of pairs that do well and pairs that do not, by kind."""

    def __init__(self, table: Iterable[Row], partners: int, share: float) -> None:
        rows = list(table)
        self.partners = partners
        self.met = _links()
        self.times: defaultdict[Pair, int] = defaultdict(int)
        self.bad: defaultdict[str, defaultdict[int, set[int]]] = defaultdict(_links)
        self.fine: defaultdict[str, defaultdict[int, set[int]]] = defaultdict(_links)
        for row, kinds in zip(rows, odd(rows, share), strict=True):
            node, other = row["pair"]
            self.times[node, other] += 1
            self.met[node].add(other)
            self.met[other].add(node)
            for kind, bad in kinds.items():
                graph = (self.bad if bad else self.fine)[kind]
                graph[node].add(other)
                graph[other].add(node)

    def is_decided(self, pair: Pair) -> bool:
        """Whether the link of one of both has failed with enough others that do well."""
        return any(self.is_bad("failed", node) for node in pair)

    def is_bad(self, kind: str, node: int) -> bool:
        """Whether a node does badly with enough partners that do well with others."""
        if self.fine[kind][node]:
            return False
        return (
            len([partner for partner in self.bad[kind][node] if self.fine[kind][partner]])
            >= self.partners
        )

    def choose(self, nodes: Sequence[int]) -> Iterable[Pair]:
        """Pairs worth measuring, the most telling first."""
        for kind, links in self.bad.items():
            doubtful = [node for node in sorted(links) if not self.is_bad(kind, node)]
            # Nodes that do well with many come first, as partners of those in doubt.
            good = sorted(
                (node for node in nodes if self.fine[kind][node]),
                key=lambda node: (len(self.bad[kind][node]), -len(self.fine[kind][node]), node),
            )
            for node in doubtful:
                # Whose partners were all guilty, of that one nothing is known yet.
                if len(self.fine[kind][node]) < ENOUGH:
                    tried = self.met[node] | {node}
                    yield from ((node, other) for other in good if other not in tried)
            for node in doubtful:
                for other in sorted(links[node].intersection(doubtful)):
                    if node < other and self.times[node, other] < ENOUGH:
                        yield node, other


def _links() -> defaultdict[int, set[int]]:
    return defaultdict(set)


def odd(rows: Sequence[Row], share: float) -> list[Kinds]:
    """Of every row: whether it stands out, by kind, where it tells something of it."""
    sound = [row for row in rows if row["outcome"] == "ok"]
    best: dict[int, float] = {}
    soonest: dict[int, float] = {}
    for row in sound:
        for node in row["pair"]:
            best[node] = max(best.get(node, 0.0), row["gbps"])
            soonest[node] = min(soonest.get(node, row["us"]), row["us"])
    if not sound:
        return [_odd(row, 0.0, 0.0) for row in rows]
    # What half of the nodes reach, or a quarter of many; see the check.
    position = len(best) // (2 if len(best) <= ALL_PAIRS else 4)
    rate = share * sorted(best.values(), reverse=True)[position]
    us = sorted(soonest.values())[position]
    return [_odd(row, rate, us) for row in rows]


def _odd(row: Row, rate: float, us: float) -> Kinds:
    if row["outcome"] == "untold":
        return {}
    if row["outcome"] == "failed":
        return {"failed": True}
    if row["outcome"] == "wrong":
        return {"failed": False, "wrong": True}
    by_tcp = row["sent"] >= max(row["messages"], 1)
    again = row["retransmitted"] >= max(SENT_AGAIN, SENT_AGAIN_SHARE * row["sent"])
    lossy = row["stalls"] >= STALLS and (again or not by_tcp)
    late = row["us"] > LATE_FACTOR * us and row["us"] > us + LATE_US
    return {
        "failed": False,
        "wrong": False,
        "lossy": lossy,
        "slow": late or row["gbps"] < rate,
    }


def summary(ranks: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One node's side of a pair: of its worst rank, or why it has none."""
    short = [rank for rank in ranks if not rank.get("ok")]
    if short:
        # Who failed by itself says more than who waited for it.
        first = next((rank for rank in short if rank["stage"] in INFRASTRUCTURE), short[0])
        first = next((rank for rank in short if "error" in rank), first)
        ending = {0: "", -9: "no end in time"}.get(first["code"], f"exit code {first['code']}")
        return {"stage": first["stage"], "why": first.get("error") or ending or "no result"}
    return {
        "why": "",
        "wrong": sum(rank["wrong"] for rank in ranks),
        "link_s": max(rank["link_s"] for rank in ranks),
        "us": max(rank["us"] for rank in ranks),
        "worst_us": max(rank["worst_us"] for rank in ranks),
        "messages": min(rank["messages"] for rank in ranks),
        "stalls": max(rank["stalls"] for rank in ranks),
        "sent": sum(rank["sent"] for rank in ranks),
        "retransmitted": sum(rank["retransmitted"] for rank in ranks),
        "gbps": min(max(rank["rates"].values()) for rank in ranks),
    }


def join(pair: Pair, sides: Sequence[dict[str, Any] | None]) -> dict[str, Any]:
    """The row of a pair from what both nodes say."""
    for node, side in zip(pair, sides, strict=True):
        if side is None:
            return {"pair": pair, "outcome": "untold", "why": f"node {node} gave no answer"}
        if side["why"] and side["stage"] in INFRASTRUCTURE:
            why = f"node {node} in stage {side['stage']}: {side['why']}"
            return {"pair": pair, "outcome": "untold", "why": why}
    first_side, second_side = (side for side in sides if side is not None)
    failed = [
        (node, side)
        for node, side in zip(pair, (first_side, second_side), strict=True)
        if side["why"]
    ]
    if failed:
        node, side = next(
            (each for each in failed if each[1]["why"] != "no end in time"), failed[0]
        )
        why = f"node {node} in stage {side['stage']}: {side['why']}"
        return {"pair": pair, "outcome": "failed", "why": why}
    return {
        "pair": pair,
        "outcome": "wrong" if first_side["wrong"] or second_side["wrong"] else "ok",
        "wrong": first_side["wrong"] + second_side["wrong"],
        **{
            key: max(first_side[key], second_side[key])
            for key in ("link_s", "us", "worst_us", "stalls")
        },
        **{key: min(first_side[key], second_side[key]) for key in ("gbps", "messages")},
        **{key: first_side[key] + second_side[key] for key in ("sent", "retransmitted")},
    }
