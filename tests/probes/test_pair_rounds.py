"""The schedule of pair rounds, and whom the check accuses by what they measure; no process runs."""

import socket
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_doctor.probe_records.pairs import PairRow
from ascend_doctor.probing.pair_bisection import Accused, Judged, judge_pairs

PROBES = Path(__file__).parent.parent.parent / "probes"
if str(PROBES) not in sys.path:
    sys.path.append(str(PROBES))

import _pair  # type: ignore # noqa: E402, PGH003
from _rounds import ALL_PAIRS, join, most_rounds, next_pairs, summary, tournament  # type: ignore # noqa: E402, PGH003

FINE = {"us": 250.0, "gbps": 1.0, "messages": 200, "sent": 1640, "retransmitted": 0, "stalls": 0}
BAD: dict[str, dict[str, Any]] = {
    "failed": {"outcome": "failed", "why": "no end in time"},
    "wrong": {"outcome": "wrong", "wrong": 3},
    "lossy": {"stalls": 12, "retransmitted": 40},
    "slow": {"gbps": 0.1},
    "late": {"us": 9000.0},
}
Pair = tuple[int, int]


class World(NamedTuple):
    """Faults of nodes, and of links between the other nodes."""

    size: int
    nodes: dict[int, str]
    links: dict[Pair, str]

    def measured(self, pair: Pair) -> dict[str, Any]:
        row: dict[str, Any] = {"pair": pair, "outcome": "ok", **FINE}
        faults = [self.nodes.get(pair[0]), self.nodes.get(pair[1]), self.links.get(pair)]
        # A cut shows nothing else.
        for fault in sorted(
            (fault for fault in faults if fault), key=list(BAD).index, reverse=True
        ):
            row |= BAD[fault]
        return row


def run(world: World) -> tuple[list[dict[str, Any]], list[list[Pair]]]:
    nodes = range(world.size)
    table: list[dict[str, Any]] = []
    rounds = []
    for number in range(most_rounds(world.size) + 3):
        pairs = next_pairs(nodes, number, table, "npu")
        assert len({node for pair in pairs for node in pair}) == 2 * len(pairs), "pairs overlap"
        table += [world.measured(pair) for pair in pairs]
        if pairs:
            rounds.append(pairs)
    return table, rounds


def judge(table: Iterable[dict[str, Any]], device: str = "npu") -> Judged:
    return judge_pairs(msgspec.convert(list(table), list[PairRow]), device=device)


def kind(fault: str) -> str:
    return "slow" if fault == "late" else fault


@st.composite
def worlds(draw: st.DrawFn, *, largest: int = 40) -> World:
    """A majority of nodes is good, and more of each good one's links to good ones than not.

    Of more than eight nodes three quarters are good, and no end has more than two bad links: they
    begin with two partners only.
    """
    count = draw(st.integers(4, largest))
    most = (count - 1) // 2 if count <= ALL_PAIRS else count // 4
    bad = draw(st.lists(st.integers(0, count - 1), unique=True, max_size=most))
    nodes = {node: draw(st.sampled_from(list(BAD))) for node in bad}
    good = [node for node in range(count) if node not in bad]
    links: dict[Pair, str] = {}
    for left, right in draw(
        st.lists(st.tuples(st.sampled_from(good), st.sampled_from(good)), max_size=4)
    ):
        pair = (min(left, right), max(left, right))
        taken = [sum(end in other for other in links) for end in pair]
        if left != right and max(taken) + 1 <= min((len(good) - 1) // 2, 2 if count > 8 else 9):
            links[pair] = draw(st.sampled_from(list(BAD)))
    return World(count, nodes, links)


@pytest.mark.slow
@settings(max_examples=300)
@given(world=worlds())
def test_exactly_the_bad_ones_are_accused(world: World) -> None:
    table, rounds = run(world)
    verdict = judge(table)
    met = {row["pair"] for row in table}
    expected: set[tuple[str, tuple[int, ...]]] = {
        (kind(fault), (node,)) for node, fault in world.nodes.items()
    }
    # A large fleet does not try every link.
    expected |= {(kind(fault), link) for link, fault in world.links.items() if link in met}
    assert {(accused.kind, accused.guilty) for accused in verdict.accused} == expected
    assert not verdict.doubts
    assert len(rounds) <= most_rounds(world.size)


@pytest.mark.slow
@given(world=worlds(largest=ALL_PAIRS))
def test_few_nodes_meet_all_others_but_those_that_are_cut(world: World) -> None:
    table, _ = run(world)
    cut = {node for node, fault in world.nodes.items() if fault == "failed"}
    met = {row["pair"] for row in table}
    for left in range(world.size):
        for right in range(left + 1, world.size):
            assert (left, right) in met or cut & {left, right}


@given(count=st.integers(2, 64))
def test_over_a_tournament_everyone_meets_everyone_once(count: int) -> None:
    met = [
        pair for number in range(count - 1 + count % 2) for pair in tournament(range(count), number)
    ]
    assert len(met) == len(set(met)) == count * (count - 1) // 2


@pytest.mark.slow
@given(count=st.integers(2, 2000))
def test_a_healthy_fleet_needs_few_rounds(count: int) -> None:
    _, rounds = run(World(count, {}, {}))
    assert len(rounds) == (2 if count > ALL_PAIRS else count - 1 + count % 2)


@pytest.mark.slow
@given(
    count=st.integers(2, 12),
    draws=st.lists(st.sampled_from(["ok", *BAD, "untold"]), min_size=1, max_size=80),
)
def test_whatever_is_measured_nobody_is_accused_for_one_observation(
    count: int, draws: list[str]
) -> None:
    table: list[dict[str, Any]] = []
    for number in range(most_rounds(count)):
        for pair in next_pairs(range(count), number, table, "npu"):
            what = draws[len(table) % len(draws)]
            row = {"pair": pair, "outcome": "ok", **FINE}
            table.append(row | ({"outcome": what} if what == "untold" else BAD.get(what, {})))
    verdict = judge(table)
    for accused in verdict.accused:
        seen = [row for row in table if row["pair"] in accused.pairs]
        assert len(seen) >= 2
        if len(accused.guilty) == 1:
            assert len(accused.pairs) >= 2
            assert all(accused.guilty[0] in pair for pair in accused.pairs)


def test_who_met_only_guilty_ones_is_tried_again() -> None:
    bad = {15: "failed", 17: "failed", 0: "failed", 1: "wrong", 5: "wrong", 7: "lossy"}
    verdict = judge(run(World(36, bad | {18: "lossy"}, {}))[0])
    assert ("lossy", (18,)) in {(accused.kind, accused.guilty) for accused in verdict.accused}


def test_who_met_only_guilty_ones_is_in_doubt() -> None:
    table = [row for row in run(World(5, {3: "failed"}, {}))[0] if row["pair"] != (3, 4)]
    assert not judge(table).doubts
    without = [row for row in table if 4 not in row["pair"]]
    alone = [*without, {"pair": (3, 4), "outcome": "failed"}]
    assert [accused.guilty for accused in judge(without).accused] == [(3,)]
    assert judge(alone).doubts == ((3, 4),)


def test_what_busy_hosts_measure_is_no_fault() -> None:
    """Rates of healthy pairs over gloo on two cores, as seen."""
    seen = {(1, 2): 1.91, (0, 2): 0.465, (1, 3): 0.797, (0, 1): 0.951, (2, 3): 0.925}
    rows = [{"pair": pair, "outcome": "ok", **FINE, "gbps": rate} for pair, rate in seen.items()]
    cut = {"pair": (0, 3), "outcome": "failed"}
    verdict = judge([*rows, cut, cut], "cpu")
    assert [(accused.kind, accused.guilty) for accused in verdict.accused] == [("failed", (0, 3))]
    assert verdict.doubts == ()


def test_three_faults_on_four_nodes_are_told_apart() -> None:
    world = World(4, {1: "slow", 2: "lossy", 3: "failed"}, {})
    verdict = judge(run(world)[0])
    assert {(accused.kind, accused.guilty) for accused in verdict.accused} == {
        ("slow", (1,)),
        ("lossy", (2,)),
        ("failed", (3,)),
    }


@pytest.mark.parametrize("fault", list(BAD))
def test_of_two_nodes_neither_is_accused(fault: str) -> None:
    table, rounds = run(World(2, {1: fault}, {}))
    verdict = judge(table)
    assert verdict.accused == ()
    # Two equally slow ones look like two good ones.
    assert verdict.doubts == (() if kind(fault) == "slow" else ((0, 1),))
    assert len(rounds) == (1 if kind(fault) == "slow" else 2)


def one_of(rows: list[dict[str, Any]], pair: Pair, **fields: Any) -> list[dict[str, Any]]:
    return [{**row, **fields} if row["pair"] == pair else row for row in rows]


CUT = run(World(4, {3: "failed"}, {}))[0]
LINK = run(World(4, {}, {(1, 2): "lossy"}))[0]


@pytest.mark.parametrize(
    ("spoilt", "why"),
    [
        (lambda: [row for row in CUT if row["pair"] != (0, 3)], "one partner is not enough"),
        (
            lambda: [*one_of(CUT, (0, 3), **{"outcome": "ok", **FINE})],
            "it does well with one of them",
        ),
        (lambda: [row for row in CUT if 3 in row["pair"]], "nobody is known to do well"),
        (lambda: LINK[:-1], "a link that was measured once"),
        (lambda: [*LINK[:-1], {**LINK[-1], **FINE}], "a link that does well the second time"),
        (
            lambda: [row for row in LINK if row["pair"] == (1, 2) or 1 not in row["pair"]],
            "an end that was tried with nobody else",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_not_proved_is_a_doubt(
    spoilt: Callable[[], list[dict[str, Any]]], why: str
) -> None:
    verdict = judge(spoilt())
    assert verdict.accused == (), why
    assert verdict.doubts


def test_the_unspoilt_tables_do_accuse() -> None:
    assert [accused.guilty for accused in judge(CUT).accused] == [(3,)]
    assert judge(LINK).accused == (Accused("lossy", (1, 2), ((1, 2),)),)


@pytest.mark.parametrize(
    ("fields", "lossy"),
    [
        ({"stalls": 2, "retransmitted": 4}, True),
        ({"stalls": 1, "retransmitted": 40}, False),
        ({"stalls": 20, "retransmitted": 3}, False),
        ({"stalls": 2, "retransmitted": 4, "sent": 4000}, False),
        ({"stalls": 2, "retransmitted": 0, "sent": 0}, True),
        ({"stalls": 1, "retransmitted": 0, "sent": 0}, False),
        ({"stalls": 2, "retransmitted": 0, "sent": 9}, True),
    ],
)
def test_what_counts_as_loss(fields: dict[str, int], lossy: bool) -> None:
    rows = [{**row, **(fields if 3 in row["pair"] else {})} for row in run(World(4, {}, {}))[0]]
    assert bool(judge(rows).accused) == lossy


@pytest.mark.parametrize(
    ("fields", "device", "slow"),
    [
        ({"gbps": 0.49}, "npu", True),
        ({"gbps": 0.51}, "npu", False),
        ({"gbps": 0.49}, "cpu", False),
        ({"gbps": 0.24}, "cpu", True),
        ({"us": 2300.0}, "npu", True),
        ({"us": 2200.0}, "npu", False),
    ],
)
def test_what_counts_as_slow(fields: dict[str, float], device: str, slow: bool) -> None:
    rows = [{**row, **(fields if 3 in row["pair"] else {})} for row in run(World(4, {}, {}))[0]]
    assert bool(judge(rows, device).accused) == slow


DONE: dict[str, Any] = {
    "ok": True,
    "wrong": 0,
    "link_s": 0.1,
    "us": 200.0,
    "worst_us": 900.0,
    "messages": 200,
    "stalls": 0,
    "sent": 800,
    "retransmitted": 1,
    "rates": {"262144": 0.5, "4194304": 1.0},
}


def test_a_side_is_that_of_its_worst_rank_and_a_pair_that_of_both() -> None:
    slow = DONE | {"us": 300.0, "stalls": 2, "rates": {"262144": 0.25}, "messages": 90}
    row = join((2, 5), [summary([DONE, slow]), summary([DONE])])
    assert row["outcome"] == "ok"
    assert {key: row[key] for key in ("us", "stalls", "gbps", "messages", "sent")} == {
        "us": 300.0,
        "stalls": 2,
        "gbps": 0.25,
        "messages": 90,
        "sent": 2400,
    }
    assert join((0, 1), [summary([DONE | {"wrong": 1}]), summary([DONE])])["outcome"] == "wrong"


HUNG = {"stage": "link", "code": -9}


@pytest.mark.parametrize(
    ("left", "right", "outcome", "why"),
    [
        ([HUNG], [HUNG], "failed", "node 0 in stage link: no end in time"),
        (
            [HUNG],
            [{"stage": "link", "code": 1, "error": "OSError: x"}],
            "failed",
            "node 1 in stage link: OSError: x",
        ),
        ([HUNG], [{"stage": "link", "code": -11}], "failed", "node 1 in stage link: exit code -11"),
        # What never reached the link says nothing about it.
        (
            [HUNG],
            [{"stage": "store", "code": 1, "error": "OSError: x"}],
            "untold",
            "node 1 in stage store: OSError: x",
        ),
        (
            [HUNG, {"stage": "device", "code": 1, "error": "E: busy"}],
            [HUNG],
            "untold",
            "node 0 in stage device: E: busy",
        ),
        ([DONE], None, "untold", "node 1 gave no answer"),
        ([DONE], [HUNG], "failed", "node 1 in stage link: no end in time"),
    ],
)
def test_how_a_pair_ended(left: Any, right: Any, outcome: str, why: str) -> None:
    sides = [None if side is None else summary(side) for side in (left, right)]
    row = join((0, 1), sides)
    assert (row["outcome"], row["why"]) == (outcome, why)


def test_segments_are_counted_without_those_of_the_store() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client, server.accept()[0] as other:
            before = _pair.tcp_counters(store=1)
            for _ in range(5):
                client.sendall(b"x")
                assert other.recv(1) == b"x"
            after = _pair.tcp_counters(store=1)
            assert after["sent"] - before["sent"] >= 5
            # One side's peer is the store; the other's is not.
            assert _pair.tcp_counters(store=port)["sent"] < after["sent"]
