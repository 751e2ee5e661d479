"""Measures nodes in pairs, round after round, so that the guilty node or link can be told.

Run it alone, on every node: ``python probes/pair_rounds.py --device cpu --nnodes 4 --node-rank R
--rdzv-endpoint HOST:PORT --nproc-per-node 1``. One agent a node; they meet over a store at
HOST:PORT. Node 0 says who measures with whom: few nodes each with all others, many with two
partners at first, then whatever stands out again with partners that do well. In each round the
pairs are disjoint, and every pair has processes and a group of its own, of all ranks of both nodes:
a sum by value, 200 small messages, and large ones. Recorded: ``count`` nodes, the ``hosts`` by
number, ``missing`` nodes, and ``pairs``, a row a measurement: outcome (ok, wrong, failed, untold),
times in microseconds, messages that stalled, TCP segments sent and sent again, bus bandwidth in
GB/s. What cannot be told, for nobody met, is ``untold``.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
import time
from collections.abc import Sequence
from typing import Any

import _probe
from _forks import Forks
from _meeting import LOOK_SECONDS, Meeting, NoMeeting
from _pair import LARGE_SECONDS, SMALL_SECONDS
from _probe import Probe
from _rounds import Pair, join, most_rounds, next_pairs, summary

MANIFEST = {
    # Before any launch over all nodes, which would only hang where one does not come.
    "order": 180,
    "level": 3,
    "seconds": 900,
    "seconds_cpu": 240,
    "needs": ["device"],
    "agents": True,
    "does": (
        "with several nodes: nodes in pairs, round after round, each with a group of its own: a "
        "sum by value, loss and latency of small messages, bandwidth of large ones"
    ),
    "on_cpu": "over gloo",
}

# How long nodes wait for each other at most, for they come from checks of different length.
MEET_SECONDS = _probe.patient(npu=180.0, cuda=180.0, cpu=60.0)
# To make the group of a pair and its first sum. HCCL reports a failed link after 140 s, and the
# first call may compile; a healthy pair is done in a part of this.
SETUP_SECONDS = _probe.patient(npu=60.0, cuda=60.0, cpu=15.0)
GRACE = 5.0  # for the last messages and the end of processes
KEPT_ALL = 64  # nodes up to which everyone keeps all rows; of more only the first do
KEEPERS = 8


def body(probe: Probe) -> None:
    """Rounds of pairs of nodes."""
    nodes = probe.nodes
    if nodes.count == 1:
        probe.skip("one node has no other to be paired with")
    with probe.stage("import"):
        _probe.import_torch(probe.device)
    # Before there is a store: a rank must not inherit its connections.
    agent = Agent(probe, Forks())
    try:
        with probe.stage("meet"):
            agent.meet()
        agent.rounds()
    except NoMeeting as reason:
        lost = "node 0 was lost: " if agent.met else ""
        probe.measure("untold", f"{lost}{reason}")
        probe.measure("blocks", f"{lost}{reason}")
    agent.keep()


class Agent:
    """One node's part: it takes what node 0 says, and on node 0 it says it, too."""

    def __init__(self, probe: Probe, forks: Forks) -> None:
        self.probe = probe
        self.nodes = probe.nodes
        self.forks = forks
        self.table: list[dict[str, Any]] = []
        self.met = False
        # Seconds that a pair may take.
        device = probe.device
        self.limit = SETUP_SECONDS[device] + SMALL_SECONDS[device] + LARGE_SECONDS[device] + GRACE

    def meet(self) -> None:
        """Come to the store and learn who else came."""
        begin = time.monotonic()
        end = begin + min(MEET_SECONDS[self.probe.device], self.probe.left() / 3)
        self.meeting = Meeting(self.nodes, end=end)
        name = {"host": socket.gethostname(), "left": self.probe.left()}
        self.meeting.tell(f"node/{self.nodes.rank}", name)
        if self.nodes.rank == 0:
            self._gather(end)
        # Node 0 may have begun to wait later than this node did.
        begun = self.meeting.wait("begin", end=end + MEET_SECONDS[self.probe.device])
        absent: list[int] = begun["missing"]
        self.present = [node for node in range(self.nodes.count) if node not in set(absent)]
        self.end = time.monotonic() + begun["left"]
        self.probe.measure("run", begun["run"])
        self.probe.measure("count", self.nodes.count)
        self.probe.measure("missing", absent)
        hosts = {self.nodes.rank: socket.gethostname()}
        self.probe.measure("hosts", self.meeting.look_up("hosts") if self.keeps_all else hosts)
        if absent:
            who = f"node{'s' * (len(absent) > 1)} {', '.join(map(str, absent))}"
            self.probe.measure("blocks", f"{who} did not come to the pair rounds")
        if self.nodes.rank not in self.present:
            raise NoMeeting("the others had begun before this node came")
        self.met = True

    @property
    def keeps_all(self) -> bool:
        """Whether this node keeps what concerns others only."""
        return self.nodes.count <= KEPT_ALL or self.nodes.rank < KEEPERS

    def _gather(self, end: float) -> None:
        """On node 0: wait for the others, and tell who came and how long all of them have."""
        came: dict[int, Any] = {}
        ends: list[float] = []
        while len(came) < self.nodes.count and time.monotonic() < end:
            for node in range(self.nodes.count):
                if node not in came and (name := self.meeting.look_up(f"node/{node}")):
                    came[node] = name
                    ends.append(time.monotonic() + name["left"])
            time.sleep(LOOK_SECONDS)
        self.meeting.tell("hosts", {node: name["host"] for node, name in came.items()})
        begun = {
            "run": secrets.token_hex(8),
            "missing": [node for node in range(self.nodes.count) if node not in came],
            "left": min(ends) - time.monotonic() - 2 * GRACE,
        }
        self.meeting.tell("begin", begun)

    def rounds(self) -> None:
        """Follow the plan; on node 0 also make it."""
        number = 0
        lead = Lead(self) if self.nodes.rank == 0 else None
        while True:
            if lead:
                lead.plan(number)
            # Within the time of a pair and what its partners may need longer.
            plan = self.meeting.wait(
                f"plan/{number}", end=time.monotonic() + self.limit + 4 * GRACE
            )
            self.table += plan["rows"]
            if plan["end"]:
                break
            end = time.monotonic() + self.limit + 2 * GRACE
            mine = [pair for pair in plan["pairs"] if self.nodes.rank in pair]
            with self.probe.stage(f"round {number}"):
                for first, second in mine:
                    result = self.pair(number, (first, second))
                    self.meeting.tell(f"result/{number}/{self.nodes.rank}", result)
                if lead:
                    lead.gather(number, plan["pairs"], end)
            number += 1
        self.probe.measure("rounds", number)
        if plan["why"]:
            self.probe.measure("unfinished", plan["why"])
        with contextlib.suppress(NoMeeting):
            self.meeting.tell(f"bye/{self.nodes.rank}", 1)
        if lead:
            lead.part()

    def pair(self, number: int, pair: Pair) -> dict[str, Any]:
        """Measure with the other node: what the ranks here came to."""
        side = pair.index(self.nodes.rank)
        other = f"result/{number}/{pair[1 - side]}"
        self.forks.begin(
            {
                "device": self.probe.device,
                "local": self.nodes.local,
                "side": side,
                "address": self.nodes.address,
                "port": self.nodes.port,
                "prefix": f"pair/{number}/{pair[0]}-{pair[1]}",
                "setup": SETUP_SECONDS[self.probe.device],
                "limit": self.limit - GRACE,
            }
        )
        end = time.monotonic() + self.limit
        row = None
        while (ranks := self.forks.answer(LOOK_SECONDS)) is None:
            if time.monotonic() > end:
                return {"stage": "start", "why": "the ranks cannot be killed"}
            if row is None and (row := self.meeting.look_up(other)) and row["why"]:
                # Nobody waits for a partner that has given up.
                self.forks.end()
        return summary(ranks)

    def keep(self) -> None:
        """Record the rows; where nodes are many, most keep those of their own."""
        rank = self.nodes.rank
        rows = [row for row in self.table if self.keeps_all or rank in row["pair"]]
        self.probe.measure("pairs", rows)
        cut = [row["pair"] for row in self.table if row["outcome"] == "failed"]
        if cut and "blocks" not in self.probe.values:
            first, second = cut[0]
            self.probe.measure("blocks", f"nodes {first} and {second} do not reach each other")


class Lead:
    """What node 0 does besides: it says who measures, and gathers the results."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.rows: list[dict[str, Any]] = []
        self.fresh: list[dict[str, Any]] = []
        self.lost: set[int] = set()
        self.turn = 0

    def plan(self, number: int) -> None:
        """Tell everyone the pairs of the next round, and what the last one has shown."""
        agent = self.agent
        here = [node for node in agent.present if node not in self.lost]
        pairs: list[Pair] = []
        while not pairs and len(here) > 1 and self.turn < most_rounds(len(agent.present)):
            pairs = self._pairs(here)
        why = ""
        if pairs and agent.end - time.monotonic() < agent.limit + GRACE:
            pairs, why = [], f"there was no time for round {number + 1}"
        everyone = agent.nodes.count <= KEPT_ALL or not pairs
        rows, self.fresh = (self.fresh, []) if everyone else ([], self.fresh)
        plan = {"pairs": pairs, "end": not pairs, "rows": rows, "why": why}
        agent.meeting.tell(f"plan/{number}", plan)

    def _pairs(self, here: Sequence[int]) -> list[Pair]:
        pairs = next_pairs(self.agent.present, self.turn, self.rows, self.agent.probe.device)
        self.turn += 1
        return [pair for pair in pairs if set(pair) <= set(here)]

    def gather(self, number: int, pairs: Sequence[Pair], end: float) -> None:
        """The results of all nodes of a round; who does not answer is not asked again."""
        agent = self.agent
        pending = {node for pair in pairs for node in pair}
        results: dict[int, Any] = {}
        while pending and time.monotonic() < end:
            for node in tuple(pending):
                if (result := agent.meeting.look_up(f"result/{number}/{node}")) is not None:
                    results[node] = result
                    pending.discard(node)
            if pending:
                time.sleep(LOOK_SECONDS)
        self.lost |= pending
        for pair in pairs:
            row = join(pair, [results.get(node) for node in pair])
            self.rows.append({"round": number, **row})
            self.fresh.append(self.rows[-1])

    def part(self) -> None:
        """Hold the store until everyone has read the end."""
        end = time.monotonic() + 3 * GRACE
        waiting = {node for node in self.agent.present if node not in self.lost}
        while waiting and time.monotonic() < end:
            waiting = {
                node for node in waiting if self.agent.meeting.look_up(f"bye/{node}") is None
            }
            time.sleep(LOOK_SECONDS)


if __name__ == "__main__":
    _probe.main(body, name="pair-rounds")
