"""A parallel layout as a table: a column a rank, a row a kind of group, one colour a group."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ascend_doctor.errors import DataError
from ascend_doctor.planning.layout import EXPERT, TITLES, Layout, parse
from ascend_doctor.probe_records.groups import ParallelGroupsRecord
from ascend_doctor.probe_records.training import SmokeTrainRecord
from ascend_doctor.probe_results import ProbeRun

# One column each: the room of a wide window.
MOST_RANKS = 64
_MOST_NPUS = 4096
_RECORDS: dict[str, type[ParallelGroupsRecord | SmokeTrainRecord]] = {
    "parallel-groups": ParallelGroupsRecord,
    "smoke-train": SmokeTrainRecord,
}
# Neighbours differ: no small multiple of this angle returns to it.
_TURN = 137


class LayoutCell(NamedTuple):
    """``hue`` is the group's, in degrees; ``side`` is a class of the page's style."""

    text: str
    hue: int
    side: str = ""


class LayoutRow(NamedTuple):
    """``size`` is that of a group, for people."""

    title: str
    cells: list[LayoutCell]
    size: str = ""


class Picture(NamedTuple):
    """``nodes`` are (label, ranks) if several; ``more`` ranks are not shown."""

    name: str
    note: str
    ranks: list[int]
    ranks_in_all: int
    nodes: list[tuple[str, int]]
    rows: list[LayoutRow]
    more: int


def picture(layout: Layout, *, note: str = "", per_node: int = 0) -> Picture:
    """Each rank's groups, for all kinds with more than one rank to a group."""
    ranks = list(range(min(layout.npus, MOST_RANKS)))
    starts = set(range(per_node, layout.npus, per_node)) if per_node else set()
    rows = []
    for kind, title in TITLES.items():
        groups = layout.groups(kind)
        if len(groups[0]) > 1 and (kind not in EXPERT or layout.ep > 1):
            of = {rank: number for number, group in enumerate(groups) for rank in group}
            cells = [LayoutCell(str(of[rank]), hue(of[rank])) for rank in ranks]
            rows.append(LayoutRow(title, cells, f"{kind.upper()} {len(groups[0])}"))
    several = 0 < per_node < layout.npus
    nodes = [
        (f"node {first // per_node}", min(per_node, len(ranks) - first))
        for first in (range(0, len(ranks), per_node) if several else ())
    ]
    more = layout.npus - len(ranks)
    edged = [_edge(row, starts) for row in rows]
    return Picture(layout.name, note, ranks, layout.npus, nodes, edged, more)


def hue(number: int) -> int:
    """A group's colour, in degrees."""
    return number * _TURN % 360


def _edge(row: LayoutRow, starts: set[int]) -> LayoutRow:
    sides = ("begins" if rank in starts else "" for rank in range(len(row.cells)))
    cells = [cell._replace(side=side) for cell, side in zip(row.cells, sides, strict=True)]
    return row._replace(cells=cells)


def layouts(runs: Sequence[ProbeRun]) -> Iterator[Picture]:
    """The layouts of probes, each once, with its probes."""
    tried: dict[Layout, list[str]] = {}
    hosts = 0
    for run in runs:
        if not 1 < run.world_size <= _MOST_NPUS:
            continue
        names = _names(run)
        if not names:
            continue
        first = run.ranks[0].host
        on_first = sum(rank.host == first for rank in run.ranks)
        hosts = on_first if on_first < len(run.ranks) else hosts
        for name in names:
            layout = _layout(name, run.world_size)
            if layout is not None:
                tried.setdefault(layout, []).append(run.probe)
    for layout, probes in tried.items():
        yield picture(layout, note=", ".join(dict.fromkeys(probes)), per_node=hosts)


def _names(run: ProbeRun) -> list[str]:
    kind = _RECORDS.get(run.probe)
    record = run.ranks[0].record_or_none(kind) if kind and run.ranks else None
    return [*record.layouts] if record else []


def _layout(name: str, ranks: int) -> Layout | None:
    """From a probe's notation: TP2 EP2 ETP1; without sizes only data parallelism."""
    try:
        return parse(name, ranks) if any(map(str.isdigit, name)) else Layout(npus=ranks)
    except DataError:
        return None
