"""Who waits for whom, by the last operations of each rank: pure, of dumps and stacks alone."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field

from ascend_doctor.diagnosis.recorder import RankTrace, TracedCall, TracedGroup
from ascend_doctor.diagnosis.stall_result import Standing

# megatron/core/pipeline_parallel/p2p_communication.py: stages before and behind, in the order of
# the group.
_STAGES = {
    ("send", "send_forward"): 1,
    ("recv", "recv_forward"): -1,
    ("send", "send_backward"): -1,
    ("recv", "recv_backward"): 1,
}


@dataclass
class StallGraph:
    """``edges``: for each rank that waits, those that have not come to what it waits in.

    ``unclear`` wait, but nobody can say for whom. Edges of the same collective share a set.
    """

    traces: Mapping[int, RankTrace]
    standings: Mapping[int, Standing]
    heads: dict[int, TracedCall] = field(default_factory=dict)
    edges: dict[int, set[int]] = field(default_factory=dict)
    unclear: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._calls = {rank: _index(trace) for rank, trace in self.traces.items()}
        self._late: dict[tuple[str, int, str, tuple[int, ...]], set[int]] = {}
        self._chains: dict[str, int] = {}
        for rank, trace in sorted(self.traces.items()):
            head = next((call for call in trace.calls if not call.done), None)
            if head is not None:
                self.heads[rank] = head
        for rank, head in self.heads.items():
            self._wait(rank, head)
        for rank, standing in self.standings.items():
            if standing.lock_holder is not None and rank not in self.heads:
                self.edges.setdefault(rank, set()).add(standing.lock_holder)

    def group(self, rank: int, call: TracedCall) -> TracedGroup:
        """The group of a call; without its ranks where the dump does not name them."""
        own = self.traces[rank].groups.get(call.group)
        return own or TracedGroup(name=call.group, ranks=())

    def was_used(self, group: str) -> bool:
        """Whether a call of this group has ended on any rank."""
        calls = (call for trace in self.traces.values() for call in trace.calls)
        return any(call.group == group and call.done for call in calls)

    def _wait(self, rank: int, head: TracedCall) -> None:
        group = self.group(rank, head)
        if not group.ranks:
            self.unclear.add(rank)
        elif head.p2p:
            self._wait_for_peer(rank, head, group)
        else:
            key = (head.group, head.number, head.operation, group.ranks)
            if key not in self._late:
                self._late[key] = {member for member in group.ranks if self._is_late(member, head)}
            if late := self._late[key] - {rank}:
                self.edges[rank] = late

    def _is_late(self, member: int, head: TracedCall) -> bool:
        """Whether a member has not come to a collective, or is held up before it."""
        calls = self._calls.get(member)
        if calls is None:
            return True
        theirs = calls.get((head.group, head.number))
        if theirs is None:
            latest = calls.get((head.group, None))
            return latest is None or latest.number < head.number
        if theirs.done:
            return False
        return theirs.operation != head.operation or self.heads.get(member) is not theirs

    # ------------------------------------------------------------ sends and receives

    def _wait_for_peer(self, rank: int, head: TracedCall, group: TracedGroup) -> None:
        peer = self.find_peer(rank, head, group)
        if peer is None:
            self.unclear.add(rank)
        elif not self._meets(rank, peer, head):
            self.edges.setdefault(rank, set()).add(peer)

    def find_peer(self, rank: int, call: TracedCall, group: TracedGroup) -> int | None:
        """The other end of a send or receive: named, the only other member, or the next stage."""
        if call.peer is not None:
            return call.peer
        size = len(group.ranks)
        if size == 2:  # noqa: PLR2004 - a pair
            return next(member for member in group.ranks if member != rank)
        if rank not in group.ranks:
            return None
        steps = {
            step
            for frame in call.frames
            if (step := _STAGES.get((call.operation, frame.function))) is not None
        }
        steps = steps or self._chain(group, call)
        if len(steps) != 1:
            return None
        stage = group.ranks.index(rank) + steps.pop()
        return group.ranks[stage % size]

    def _chain(self, group: TracedGroup, call: TracedCall) -> set[int]:
        """Where all that was sent and received fits a line of ranks in one direction: that one."""
        if group.name not in self._chains:
            self._chains[group.name] = self._direction(group)
        direction = self._chains[group.name]
        if not direction:
            return set()
        return {direction if call.operation == "send" else -direction}

    def _direction(self, group: TracedGroup) -> int:
        counts = []
        for rank in group.ranks:
            trace = self.traces.get(rank)
            if trace is None or not trace.whole:
                return 0
            own = [call for call in trace.calls if call.p2p and call.group == group.name]
            if any(call.operation not in {"send", "recv"} for call in own):
                return 0
            counts.append(
                tuple(
                    sum(call.operation == name and call.done for call in own)
                    for name in ("send", "recv")
                )
            )
        forward = _is_line(counts)
        backward = _is_line(counts[::-1])
        return forward - backward

    def _meets(self, rank: int, peer: int, head: TracedCall) -> bool:
        """Whether the peer stands at the other end of this one."""
        other = "recv" if head.operation == "send" else "send"
        theirs = self.heads.get(peer)
        if theirs is None or not theirs.p2p or theirs.group != head.group:
            return False
        if theirs.operation not in {other, head.operation}:
            return True  # several at once: nobody can tell
        return theirs.operation == other and self.find_peer(
            peer, theirs, self.group(peer, theirs)
        ) in {rank, None}


def _is_line(counts: list[tuple[int, ...]]) -> bool:
    """Whether each rank's sends are the receives of the next; one may have ended on one side."""
    if counts[0][1] or counts[-1][0] or not any(sent for sent, _ in counts):
        return False
    return all(
        sent and abs(sent - received) <= 1
        for (sent, _), (_, received) in itertools.pairwise(counts)
    )


def _index(trace: RankTrace) -> dict[tuple[str, int | None], TracedCall]:
    """Collectives by group and number, and the latest of each group."""
    calls: dict[tuple[str, int | None], TracedCall] = {}
    for call in trace.calls:
        if not call.p2p:
            calls[call.group, call.number] = call
            calls[call.group, None] = call
    return calls
