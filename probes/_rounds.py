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
    turn = number % (len(ring) - 1)
    ring = [ring[0], *ring[len(ring) - turn :], *ring[1 : len(ring) - turn]]
    half = len(ring) // 2
    return [
        (min(one, two), max(one, two))
        for one, two in zip(ring[:half], reversed(ring[half:]), strict=True)
        if one is not None and two is not None
    ]


def next_pairs(nodes: Sequence[int], number: int, table: Iterable[Row], device: str) -> list[Pair]:
    """The pairs of round ``number``, from 0; none where nothing is left to be measured."""
    seen = Seen(table, enough(len(nodes)), RATE_SHARE[device])
    if number < _base(len(nodes)):
        return [one for one in tournament(nodes, number) if not seen.told(one)]
    if number >= most_rounds(len(nodes)):
        return []
    chosen: list[Pair] = []
    busy: set[int] = set()
    for one, two in seen.wanted(nodes):
        if one not in busy and two not in busy:
            chosen.append((min(one, two), max(one, two)))
            busy |= {one, two}
    return chosen


class Seen:
    """What was measured, as graphs of pairs that do well and pairs that do not, by kind."""

    def __init__(self, table: Iterable[Row], partners: int, share: float) -> None:
        rows = list(table)
        self.partners = partners
        self.met = _links()
        self.times: defaultdict[Pair, int] = defaultdict(int)
        self.bad: defaultdict[str, defaultdict[int, set[int]]] = defaultdict(_links)
        self.fine: defaultdict[str, defaultdict[int, set[int]]] = defaultdict(_links)
        for row, kinds in zip(rows, odd(rows, share), strict=True):
            one, two = row["pair"]
            self.times[one, two] += 1
            self.met[one].add(two)
            self.met[two].add(one)
            for kind, bad in kinds.items():
                graph = (self.bad if bad else self.fine)[kind]
                graph[one].add(two)
                graph[two].add(one)

    def told(self, pair: Pair) -> bool:
        """Whether the link of one of both has failed with enough others that do well."""
        return any(self.settled("failed", one) for one in pair)

    def settled(self, kind: str, node: int) -> bool:
        """Whether a node does badly with enough partners that do well with others."""
        if self.fine[kind][node]:
            return False
        return len([one for one in self.bad[kind][node] if self.fine[kind][one]]) >= self.partners

    def wanted(self, nodes: Sequence[int]) -> Iterable[Pair]:
        """Pairs worth measuring, the most telling first."""
        for kind, links in self.bad.items():
            doubtful = [one for one in sorted(links) if not self.settled(kind, one)]
            # Nodes that do well with many come first, as partners of those in doubt.
            good = sorted(
                (one for one in nodes if self.fine[kind][one]),
                key=lambda one: (len(self.bad[kind][one]), -len(self.fine[kind][one]), one),
            )
            for one in doubtful:
                # Whose partners were all guilty, of that one nothing is known yet.
                if len(self.fine[kind][one]) < ENOUGH:
                    tried = self.met[one] | {one}
                    yield from ((one, other) for other in good if other not in tried)
            for one in doubtful:
                for two in sorted(links[one].intersection(doubtful)):
                    if one < two and self.times[one, two] < ENOUGH:
                        yield one, two


def _links() -> defaultdict[int, set[int]]:
    return defaultdict(set)


def odd(rows: Sequence[Row], share: float) -> list[Kinds]:
    """Of every row: whether it stands out, by kind, where it tells something of it."""
    sound = [row for row in rows if row["outcome"] == "ok"]
    best: dict[int, float] = {}
    soonest: dict[int, float] = {}
    for row in sound:
        for one in row["pair"]:
            best[one] = max(best.get(one, 0.0), row["gbps"])
            soonest[one] = min(soonest.get(one, row["us"]), row["us"])
    if not sound:
        return [_odd(row, 0.0, 0.0) for row in rows]
    # What half of the nodes reach, or a quarter of many; see the check.
    place = len(best) // (2 if len(best) <= ALL_PAIRS else 4)
    rate = share * sorted(best.values(), reverse=True)[place]
    us = sorted(soonest.values())[place]
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
    short = [one for one in ranks if not one.get("ok")]
    if short:
        # Who failed by itself says more than who waited for it.
        first = next((one for one in short if one["stage"] in INFRASTRUCTURE), short[0])
        first = next((one for one in short if "error" in one), first)
        ending = {0: "", -9: "no end in time"}.get(first["code"], f"exit code {first['code']}")
        return {"stage": first["stage"], "why": first.get("error") or ending or "no result"}
    return {
        "why": "",
        "wrong": sum(one["wrong"] for one in ranks),
        "link_s": max(one["link_s"] for one in ranks),
        "us": max(one["us"] for one in ranks),
        "worst_us": max(one["worst_us"] for one in ranks),
        "messages": min(one["messages"] for one in ranks),
        "stalls": max(one["stalls"] for one in ranks),
        "sent": sum(one["sent"] for one in ranks),
        "retransmitted": sum(one["retransmitted"] for one in ranks),
        "gbps": min(max(one["rates"].values()) for one in ranks),
    }


def joined(pair: Pair, sides: Sequence[dict[str, Any] | None]) -> dict[str, Any]:
    """The row of a pair from what both nodes say."""
    for node, side in zip(pair, sides, strict=True):
        if side is None:
            return {"pair": pair, "outcome": "untold", "why": f"node {node} gave no answer"}
        if side["why"] and side["stage"] in INFRASTRUCTURE:
            why = f"node {node} in stage {side['stage']}: {side['why']}"
            return {"pair": pair, "outcome": "untold", "why": why}
    one, two = (side for side in sides if side is not None)
    failed = [(node, side) for node, side in zip(pair, (one, two), strict=True) if side["why"]]
    if failed:
        node, side = next(
            (each for each in failed if each[1]["why"] != "no end in time"), failed[0]
        )
        why = f"node {node} in stage {side['stage']}: {side['why']}"
        return {"pair": pair, "outcome": "failed", "why": why}
    return {
        "pair": pair,
        "outcome": "wrong" if one["wrong"] or two["wrong"] else "ok",
        "wrong": one["wrong"] + two["wrong"],
        **{key: max(one[key], two[key]) for key in ("link_s", "us", "worst_us", "stalls")},
        **{key: min(one[key], two[key]) for key in ("gbps", "messages")},
        **{key: one[key] + two[key] for key in ("sent", "retransmitted")},
    }
