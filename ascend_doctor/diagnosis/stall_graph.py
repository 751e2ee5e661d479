"""Who waits for whom, by the last operations of each rank: pure, of dumps and stacks alone."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field

from ascend_doctor.diagnosis.recorder import EXCHANGES, RankTrace, TracedCall, TracedGroup
from ascend_doctor.diagnosis.stall_result import Standing

Exchange = tuple[str, int]

_WORLD = "default_pg"
_PIPELINE = "PIPELINE_MODEL_PARALLEL_GROUP"


@dataclass
class StallGraph:
    """``edges``: whom each rank awaits, one set per collective; ``unclear`` await unknown ones."""

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

    def standing(self, rank: int) -> Standing:
        return self.standings.get(rank) or Standing(rank=rank)

    def group(self, rank: int, call: TracedCall) -> TracedGroup:
        own = self.traces[rank].groups.get(call.group)
        return own or TracedGroup(name=call.group, ranks=())

    def calls_beside(self, rank: int, call: TracedCall) -> list[TracedCall]:
        members = self._calls.keys() & {*self.group(rank, call).ranks} - {rank}
        calls = (self._calls[member].get((call.group, call.number)) for member in members)
        return [other for other in calls if other]

    def was_used(self, like: TracedCall) -> bool:
        """Whether a call of this group has ended on any rank, for a send a send or receive."""
        calls = (call for trace in self.traces.values() for call in trace.calls if call.done)
        return any((call.group, call.p2p) == (like.group, like.p2p) for call in calls)

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

    def _wait_for_peer(self, rank: int, head: TracedCall, group: TracedGroup) -> None:
        exchanges = self._exchanges(rank, head, group)
        if not exchanges:
            self.unclear.add(rank)
        for exchange in exchanges:
            if not self._meets(rank, exchange, head):
                self.edges.setdefault(rank, set()).add(exchange[1])

    def _exchanges(self, rank: int, call: TracedCall, group: TracedGroup) -> set[Exchange]:
        """What and with which peer a send, a receive or a batch exchanges; empty if unknown.

        The peer is named, the only other member, or the stage before or behind.
        """
        own = call.operation if call.operation in {"send", "recv"} else ""
        if call.peer is not None:
            return {(own, call.peer)}
        steps = {
            step
            for frame in call.frames
            for step in EXCHANGES.get(frame.function.rpartition(".")[2], ())
            if own in {"", step[0]}
        }
        stages = self._stages(rank, group) if steps else group
        if len(stages.ranks) == 2 and rank in stages.ranks:  # noqa: PLR2004 - a pair
            peer = next(member for member in stages.ranks if member != rank)
            return {(operation, peer) for operation, _ in steps} or {(own, peer)}
        if not steps and own:
            steps = self._chain(group, call)
        directions = {step for _, step in steps}
        if rank not in stages.ranks or (own and len(directions) != 1):
            return set()
        at = stages.ranks.index(rank)
        return {
            (operation, stages.ranks[(at + step) % len(stages.ranks)]) for operation, step in steps
        }

    def _stages(self, rank: int, group: TracedGroup) -> TracedGroup:
        """The group in stage order: half of a pair's traffic is in the world's (_p2p_ops)."""
        groups = self.traces[rank].groups.values()
        largest = max((len(other.ranks) for other in groups), default=0)
        if group.title == _PIPELINE or (group.title != _WORLD and len(group.ranks) < largest):
            return group
        pipelines = [other for other in groups if other.title == _PIPELINE]
        if len(pipelines) == 1:
            return pipelines[0]
        alone = not any(len(other.ranks) < len(group.ranks) for other in groups)
        return group if alone else TracedGroup(name=group.name, ranks=())

    def _chain(self, group: TracedGroup, call: TracedCall) -> set[Exchange]:
        """A line of ranks in one direction, if all that was sent and received fits one."""
        if group.name not in self._chains:
            self._chains[group.name] = self._direction(group)
        direction = self._chains[group.name]
        if not direction:
            return set()
        return {(call.operation, direction if call.operation == "send" else -direction)}

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

    def _meets(self, rank: int, exchange: Exchange, head: TracedCall) -> bool:
        operation, peer = exchange
        theirs = self.heads.get(peer)
        if theirs is None or not theirs.p2p or theirs.group != head.group:
            return False
        exchanges = self._exchanges(peer, theirs, self.group(peer, theirs))
        if not exchanges or not operation:
            return True  # nobody can tell
        other = "recv" if operation == "send" else "send"
        return bool({(other, rank), ("", rank)} & exchanges)


def _is_line(counts: list[tuple[int, ...]]) -> bool:
    """Whether each rank's sends are the receives of the next; one may have ended on one side."""
    if counts[0][1] or counts[-1][0] or not any(sent for sent, _ in counts):
        return False
    return all(
        sent and abs(sent - received) <= 1
        for (sent, _), (_, received) in itertools.pairwise(counts)
    )


def _index(trace: RankTrace) -> dict[tuple[str, int | None], TracedCall]:
    calls: dict[tuple[str, int | None], TracedCall] = {}
    for call in trace.calls:
        if not call.p2p:
            calls[call.group, call.number] = call
            calls[call.group, None] = call
    return calls
