"""Every node of a fleet as a cell: its verdict, and what was found on it."""

import re
from collections import defaultdict
from collections.abc import Callable
from typing import NamedTuple

from ascend_doctor.fleet.hostlist import compress
from ascend_doctor.report import Report

# In the order of the lists below, as their colours are.
VERDICTS = ("failed", "missing", "no verdict", "passed, with findings", "passed")
_STYLES = ("error", "missing", "unknown", "warning", "ok")

# A number, letters or a hyphen, and the node's number in its name's first label.
_RACK = re.compile(r"([^.]*\d)[^.\d]+\d+(?:\.|$)")


class NodeCell(NamedTuple):
    """``style`` is the level whose colour it has; a filter searches ``text``."""

    name: str
    verdict: str
    style: str
    text: str


class FleetGrid(NamedTuple):
    """``rows`` are a verdict, its style and its nodes; ``leave_out`` is for schedulers.

    ``racks`` are names with their nodes; one without a name if names show no racks.
    """

    rows: list[tuple[str, str, tuple[str, ...]]]
    racks: list[tuple[str, list[NodeCell]]]
    leave_out: str


def grid_of(report: Report, say: Callable[[str], str] = str) -> FleetGrid | None:
    """A merged report's nodes by name; None for one machine.

    ``say`` translates what a filter searches.
    """
    fleet = report.fleet
    if fleet is None:
        return None
    findings: dict[str, list[str]] = defaultdict(list)
    for finding in report.complaints:
        for name in finding.nodes:
            findings[name].append(f"{say(finding.title)} [{finding.check}]")
    clean = tuple(name for name in fleet.passing if name not in findings)
    others = tuple(name for name in fleet.passing if name in findings)
    nodes = (fleet.failing, fleet.missing, fleet.untold, others, clean)
    rows = list(zip(VERDICTS, _STYLES, nodes, strict=True))
    cells = [
        NodeCell(name, verdict, style, "; ".join([f"{name}: {say(verdict)}", *findings[name]]))
        for verdict, style, names in rows
        for name in names
    ]
    out = {*fleet.failing, *fleet.missing}
    return FleetGrid(rows, _group_by_rack(sorted(cells)), compress(sorted(out)))


def _group_by_rack(cells: list[NodeCell]) -> list[tuple[str, list[NodeCell]]]:
    """Nodes by what precedes their number: r01 of r01n03, rack3 of rack3-node12."""
    racks: dict[str, list[NodeCell]] = defaultdict(list)
    for cell in cells:
        match = _RACK.match(cell.name)
        racks[match[1] if match else ""].append(cell)
    # One rack each, or one for all, would be useless.
    if "" in racks or not 1 < len(racks) < len(cells):
        return [("", cells)]
    return list(racks.items())
