"""How the clocks of nodes differ, from what happens on all of them at once."""

import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field

# Nodes are together again within this many seconds; less is no difference of clocks.
_JITTER = 5.0
_EVENTS = 256
_NODES = 4096


@dataclass
class Clocks:
    """Offsets to the node with most shared events; ``unrelated`` share none, at another time."""

    _events: dict[str, dict[str, float]] = field(default_factory=dict)
    _counts: dict[tuple[str, str], int] = field(default_factory=dict)
    _spans: dict[str, tuple[float, float]] = field(default_factory=dict)
    offsets: dict[str, float] = field(default_factory=dict)
    unrelated: set[str] = field(default_factory=set)
    compared: set[str] = field(default_factory=set)

    def note(self, event: str, node: str, seconds: float) -> None:
        """Something that all nodes see at the same moment."""
        if node and (event in self._events or len(self._events) < _EVENTS):
            nodes = self._events.setdefault(event, {})
            if len(nodes) < _NODES:
                nodes.setdefault(node, seconds)

    def count(self, event: str, node: str, seconds: float) -> None:
        """The same where it is told from others of its kind by its number only."""
        number = self._counts.get((event, node), 0)
        if len(self._counts) < _NODES or number:
            self._counts[event, node] = number + 1
            self.note(f"{event} {number}", node, seconds)

    def span(self, node: str, seconds: float) -> None:
        if node and (node in self._spans or len(self._spans) < _NODES):
            first, last = self._spans.get(node, (seconds, seconds))
            self._spans[node] = (min(first, seconds), max(last, seconds))

    def settle(self) -> None:
        times: dict[str, int] = {}
        for nodes in self._events.values():
            for node in nodes if len(nodes) > 1 else ():
                times[node] = times.get(node, 0) + 1
        if times:
            self._compare(max(sorted(times), key=lambda node: times[node]))
        others = sorted(set(self._spans) - self.compared)
        reference = [self._spans[node] for node in self.compared if node in self._spans]
        for node in others:
            first, last = self._spans[node]
            apart = [
                (low, high)
                for low, high in reference or [self._spans[name] for name in others if name != node]
                if last < low or high < first
            ]
            if apart:
                self.unrelated.add(node)

    def _compare(self, reference: str) -> None:
        self.compared, fresh, total = {reference}, {reference}, {reference: 0.0}
        while fresh:
            known = dict(total)
            apart: dict[str, list[float]] = {}
            for nodes in self._events.values():
                bases = [nodes[node] - known[node] for node in nodes if node in known]
                for node in nodes.keys() - known.keys() if bases else ():
                    apart.setdefault(node, []).append(nodes[node] - statistics.median(bases))
            total |= {node: statistics.median(several) for node, several in apart.items()}
            fresh = set(apart)
            self.compared |= fresh
        self.offsets = {node: apart for node, apart in total.items() if abs(apart) > _JITTER}

    def comparable(self, nodes: Iterable[str]) -> bool:
        several = set(nodes)
        return len(several) <= 1 or not several & self.unrelated
