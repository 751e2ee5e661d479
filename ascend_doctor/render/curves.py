"""Rates by message size as lines in a picture, against what the chip's links are said to carry."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ascend_doctor.facts import Snapshot
from ascend_doctor.findings import show_bytes
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.schema import Link
from ascend_doctor.probe_records.common import ProbeRecord
from ascend_doctor.probe_records.device import BandwidthRecord
from ascend_doctor.probe_results import ProbeRun

# The picture in its own units: the box of the lines, and room for what stands beside it.
LEFT, TOP, WIDTH, HEIGHT = 64, 16, 620, 260
_STEPS = (1.0, 2.0, 5.0, 10.0)
# More lines than that nobody tells apart by their colour.
_MOST_LINES = 8
# As many sizes as have room below the picture without touching.
_LABELS = 5
# More is a record that was made by hand, and would flatten every other line.
_MOST_GBYTES_S = 1e9


class Curve(NamedTuple):
    """``rates`` are in GB/s, one a size; ``path`` and ``dots`` are the same in the picture."""

    name: str
    rates: list[float | None]
    path: str
    dots: list[tuple[float, float]]


class Tick(NamedTuple):
    """``at`` is in the picture."""

    at: float
    label: str


class Chart(NamedTuple):
    """``limit`` is the figure of the link in GB/s, with its place in the picture and its words."""

    title: str
    simulated: bool
    sizes: list[str]
    lines: list[Curve]
    across: list[Tick]
    up: list[Tick]
    limit: Tick | None
    caption: str


def charts(facts: Snapshot, catalog: Catalog) -> Iterator[Chart]:
    """One for each run whose first rank has bus bandwidths by collective and size in bytes."""
    for run in facts.probes:
        first = min(run.ranks, key=lambda rank: rank.rank, default=None)
        rates = _rates(first.record_or_none(BandwidthRecord)) if first else {}
        sizes = sorted({size for by_size in rates.values() for size in by_size})
        if len(sizes) > 1:
            yield _chart(run, rates, sizes, _link(run, facts, catalog))


def _rates(record: BandwidthRecord | None) -> dict[str, dict[int, float]]:
    """Bus bandwidth in GB/s by collective and size; what has another form is left out."""
    rates: dict[str, dict[int, float]] = {}
    for name, by_size in record.rates.items() if record else ():
        for size, rate in by_size.items():
            busbw = rate.busbw
            if isinstance(busbw, float) and 0 <= busbw < _MOST_GBYTES_S and size >= 0:
                rates.setdefault(name, {})[size] = busbw
    return dict(list(rates.items())[:_MOST_LINES])


def _chart(
    run: ProbeRun, rates: Mapping[str, Mapping[int, float]], sizes: list[int], link: Link | None
) -> Chart:
    limit = _limit(link, run.world_size) if link else None
    highest = max(
        [limit or 0.0, *(rate for rank_rates in rates.values() for rate in rank_rates.values())]
    )
    top = _round_up(highest)
    apart = WIDTH / (len(sizes) - 1)

    def height(rate: float) -> float:
        return round(TOP + HEIGHT * (1 - rate / top), 1)

    lines = []
    for name, by_size in rates.items():
        dots = [
            (round(LEFT + apart * number, 1), height(by_size[size]))
            for number, size in enumerate(sizes)
            if size in by_size
        ]
        path = "M" + " L".join(f"{x} {y}" for x, y in dots)
        lines.append(Curve(name, [by_size.get(size) for size in sizes], path, dots))
    shown = range(0, len(sizes), -(-len(sizes) // _LABELS))
    return Chart(
        title=f"{run.probe}: bus bandwidth in GB/s by message size, {run.where}",
        simulated=run.simulated,
        sizes=[show_bytes(size) for size in sizes],
        lines=lines,
        across=[Tick(round(LEFT + apart * index, 1), show_bytes(sizes[index])) for index in shown],
        up=[Tick(height(top * part / 4), f"{top * part / 4:g}") for part in range(5)],
        limit=Tick(height(limit), f"{limit:g}") if limit else None,
        caption=_describe_link(link, limit, run),
    )


def _link(run: ProbeRun, facts: Snapshot, catalog: Catalog) -> Link | None:
    """The one that the messages of this run go over, where the chip is known."""
    records = [rank.record_or_none(ProbeRecord) for rank in run.ranks]
    named = [record.name for record in records if record and record.name]
    named += [device.name for device in facts.npus.devices] if facts.npus else []
    family = catalog.family_of(named[0]) if named and run.device == "npu" else None
    reach = "nodes" if len({rank.host for rank in run.ranks}) > 1 else "node"
    return next((link for link in family.links if link.reach == reach), None) if family else None


def _limit(link: Link, ranks: int) -> float:
    """What one rank can send: in a mesh it has a link to each of the others that take part."""
    if link.per_pair is None:
        return link.gbytes_s
    return min(link.gbytes_s, link.per_pair * max(ranks - 1, 1))


def _describe_link(link: Link | None, limit: float | None, run: ProbeRun) -> str:
    if link is None or limit is None:
        return (
            f"No figure is documented for the links of {run.device} here."
            if run.device
            else "No figure is documented for the links here."
        )
    basis = {"paper": "by a paper", "seen": "as seen", "third-party": "by third parties"}
    mesh = f", {link.per_pair:g} to each other rank" if link.per_pair else ""
    simulated = "; this run was simulated and says nothing about it" if run.simulated else ""
    return (
        f"{link.kind}, {basis[link.basis]}: {limit:g} GB/s each way{mesh} ({link.source})"
        f"{simulated}. There is no official baseline of collectives."
    )


def _round_up(rate: float) -> float:
    """1, 2 or 5 times a power of ten, at least the rate."""
    if rate <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(rate))
    # A rate of 1.0001 has no need of an axis up to 2.
    return next(step * power for step in _STEPS if step * power >= rate * 0.999)
