"""Who waits for whom: the lines of all processes as one graph, and where its chains end."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from ascend_doctor.diagnosis.origins import Origin
from ascend_doctor.diagnosis.processes import NOBODY, HcclPeer, Processes

# A rank in the job, or the name of an otherwise unknown process.
Party = int | str
# For a connection, for a step of a collective, or a failed link.
WaitKind = Literal["socket", "task", "broken"]

_WAITS = 1 << 16
_SHOWN = 4


@dataclass(frozen=True, kw_only=True)
class Wait:
    """``own`` is the waiter's rank where its line counts."""

    waiter: Origin
    peer: HcclPeer
    own: int | None = None
    kind: WaitKind = "socket"


@dataclass(frozen=True, kw_only=True)
class Ends:
    """``sinks`` wait only for each other; ``lone`` left no log, and one process alone complains."""

    sinks: tuple[tuple[Party, ...], ...]
    lone: tuple[Party, ...]


@dataclass
class Waiting:
    _waits: set[Wait] = field(default_factory=set)
    edges: dict[Party, set[Party]] = field(default_factory=dict)
    kinds: dict[tuple[Party, Party], WaitKind] = field(default_factory=dict)
    addresses: dict[Party, str] = field(default_factory=dict)

    def add(self, wait: Wait) -> None:
        rank = wait.peer.rank
        if len(self._waits) < _WAITS and (rank is None or rank < NOBODY):
            self._waits.add(wait)

    def replace(self, old: Wait, new: Wait) -> None:
        self._waits.discard(old)
        self.add(new)

    def settle(
        self, processes: Processes, rank_of: Callable[[Origin], int | None], size: int
    ) -> None:
        for wait in self._waits:
            rank = rank_of(wait.waiter)
            waiter = _name_waiter(wait, rank, processes)
            process = processes.find(wait.waiter, wait.peer)
            peer: Party | None
            if process:
                known = processes.rank_of(process)
                peer = known if known is not None else name(process.key)
            else:
                peer = _unknown(wait, rank, size)
            if waiter is None or waiter == peer:
                continue
            self.edges.setdefault(waiter, set()).add(peer)
            self.kinds[waiter, peer] = wait.kind
            if wait.peer.address:
                self.addresses.setdefault(peer, wait.peer.address)

    def ends(self, has_log: Callable[[Party], bool]) -> Ends:
        backwards: dict[Party, set[Party]] = {}
        for waiter, peers in self.edges.items():
            for peer in peers:
                backwards.setdefault(peer, set()).add(waiter)
        lone = {
            peer
            for peer, waiters in backwards.items()
            if peer not in self.edges and len(waiters) == 1 and not has_log(peer)
        }
        without_lone = {waiter: peers - lone for waiter, peers in self.edges.items()}
        sinks = [
            group
            for group in _components(without_lone)
            if all(without_lone.get(party, set()) <= group for party in group)
            and (len(group) > 1 or next(iter(group)) in backwards)
            and not (len(group) == 1 and self.edges.get(next(iter(group)), set()) & lone)
        ]
        return Ends(
            sinks=tuple(sorted((tuple(sorted(group, key=_order)) for group in sinks), key=str)),
            lone=tuple(sorted(lone, key=_order)),
        )

    def connects(self, pair: tuple[Party, ...]) -> bool:
        """Whether two wait for each other to connect; a step has waits both ways."""
        return len(pair) == 2 and "socket" in {  # noqa: PLR2004 - a pair
            self.kinds.get(pair, "task"),
            self.kinds.get(pair[::-1], "task"),
        }

    def broken_link(self, accused: tuple[Party, ...]) -> tuple[Party, ...]:
        """Both ends of a failed link, if one is accused by the other alone."""
        waiters = [waiter for waiter, peers in self.edges.items() if accused[0] in peers]
        if len(accused) != 1 or [self.kinds[waiter, accused[0]] for waiter in waiters] != [
            "broken"
        ]:
            return ()
        return tuple(sorted((waiters[0], accused[0]), key=_order))

    def describe(self, called: Callable[[Party], str]) -> str:
        pairs = sorted(
            ((waiter, peer) for waiter, peers in self.edges.items() for peer in peers),
            key=lambda pair: tuple(map(_order, pair)),
        )
        phrases = [
            _describe_pair(self.kinds[waiter, peer], called(waiter), called(peer))
            for waiter, peer in pairs[:_SHOWN]
        ]
        more = len(pairs) - len(phrases)
        return ", ".join(phrases) + (f", and {more} more" if more else "")


def _describe_pair(kind: WaitKind, waiter: str, peer: str) -> str:
    if kind == "broken":
        return f"{waiter} lost its link to {peer}"
    return f"{waiter} waits for {peer}"


def name(key: tuple[str, str]) -> str:
    node, pid = key
    return f"{node} pid {pid}".strip()


def _name_waiter(wait: Wait, rank: int | None, processes: Processes) -> Party | None:
    if rank is not None:
        return rank
    if process := processes.of(wait.waiter):
        return name(process.key)
    return wait.own


def _unknown(wait: Wait, rank: int | None, size: int) -> Party:
    peer = wait.peer
    counts = wait.own is None or rank is None or wait.own == rank
    if peer.rank is not None and counts and (not size or peer.rank < size):
        return peer.rank
    return peer.name


def _order(party: Party) -> tuple[int, str]:
    return (party, "") if isinstance(party, int) else (NOBODY, party)


def _components(edges: Mapping[Party, Iterable[Party]]) -> list[set[Party]]:
    """Sets of parties in mutual waits, direct or indirect (Kosaraju)."""
    backwards: dict[Party, set[Party]] = {}
    for waiter, peers in edges.items():
        backwards.setdefault(waiter, set())
        for peer in peers:
            backwards.setdefault(peer, set()).add(waiter)
    left: list[Party] = []
    seen: set[Party] = set()
    for start in backwards:
        left += _after(start, edges, seen)
    passed: set[Party] = set()
    return [group for start in reversed(left) if (group := set(_after(start, backwards, passed)))]


def _after(start: Party, edges: Mapping[Party, Iterable[Party]], seen: set[Party]) -> list[Party]:
    if start in seen:
        return []
    seen.add(start)
    done: list[Party] = []
    path = [(start, iter(edges.get(start, ())))]
    while path:
        party, peers = path[-1]
        for peer in peers:
            if peer not in seen:
                seen.add(peer)
                path.append((peer, iter(edges.get(peer, ()))))
                break
        else:
            path.pop()
            done.append(party)
    return done
