"""The matrix of pairs of nodes, as far as a page has room for it."""

from collections.abc import Iterator
from typing import NamedTuple

from ascend_doctor.checks.probes.pair_rounds import pairs_of
from ascend_doctor.findings import Level
from ascend_doctor.probing.pair_bisection import Pair, Pairs
from ascend_doctor.report import Report

# Of a pair; every other outcome is a failure.
_LEVELS = {"fine": Level.OK, "unsteady": Level.UNKNOWN, "untold": Level.UNKNOWN}


class PairCell(NamedTuple):
    """One pair. ``share`` is its rate in per cent of the best one."""

    pair: Pair
    level: Level
    share: int

    @property
    def text(self) -> str:
        """A word or a rate in GB/s, for a narrow column."""
        if self.pair.outcome == "fine" and self.pair.gbps is not None:
            return f"{self.pair.gbps:.3g}"
        return self.pair.outcome

    @property
    def figures(self) -> str:
        pair = self.pair
        lost = f", {pair.lost:.1%} sent again" if pair.lost else ""
        return "" if pair.gbps is None else f"{pair.gbps:.3g} GB/s, {pair.us or 0.0:.0f} us{lost}"


class Matrix(NamedTuple):
    """``rows`` are cells by node, None if a pair was not measured; ``hidden`` counts nodes.

    ``numbers`` are the nodes' names in the launch.
    """

    numbers: tuple[int, ...]
    names: tuple[str, ...]
    rows: tuple[tuple[PairCell | None, ...], ...]
    hidden: int

    @property
    def title(self) -> str:
        """What its cells say, and how much is not shown."""
        left_out = f"; {self.hidden} more nodes are left out" if self.hidden else ""
        return f"Pairs of nodes: GB/s, or what is wrong with them{left_out}"


def matrix_of(report: Report, *, most: int) -> Matrix | None:
    """At most ``most`` nodes, those of bad pairs first; None without pairs."""
    pairs = _pairs(report)
    if pairs is None or not pairs.pairs:
        return None
    nodes = set(list(dict.fromkeys((*_suspects(pairs), *pairs.nodes)))[: max(most, 2)])
    numbers = tuple(number for number, name in enumerate(pairs.nodes) if name in nodes)
    names = tuple(pairs.nodes[number] for number in numbers)
    best = max((pair.gbps or 0.0 for pair in pairs.pairs), default=0.0) or 1.0
    cells: dict[tuple[str, str], PairCell] = {}
    for pair in pairs.pairs:
        level = _LEVELS.get(pair.outcome, Level.ERROR)
        cell = PairCell(pair, level, round(100 * (pair.gbps or 0.0) / best))
        cells[pair.nodes] = cells[pair.nodes[::-1]] = cell
    rows = tuple(tuple(cells.get((first, two)) for two in names) for first in names)
    return Matrix(numbers, names, rows, len(pairs.nodes) - len(names))


def _pairs(report: Report) -> Pairs | None:
    if report.fleet is not None:
        return report.fleet.pairs
    return next((pairs for probe in report.snapshot.probes if (pairs := pairs_of(probe))), None)


def _suspects(pairs: Pairs) -> Iterator[str]:
    partners: dict[str, list[str]] = {}
    for pair in pairs.pairs:
        if pair.outcome != "fine":
            for name, other in (pair.nodes, pair.nodes[::-1]):
                partners.setdefault(name, []).append(other)
    for name in sorted(partners, key=lambda name: -len(partners[name])):
        yield name
        yield from partners[name]
