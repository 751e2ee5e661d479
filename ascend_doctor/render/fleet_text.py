"""What is wrong with many machines: one line a cause, under the nodes that have it."""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from ascend_doctor.findings import Finding, quantity
from ascend_doctor.fleet.hostlist import compress
from ascend_doctor.render import columns
from ascend_doctor.render.columns import width
from ascend_doctor.render.page import Page
from ascend_doctor.render.plain import one_line
from ascend_doctor.report import Report

_CUT = ", ..."
_MISSING = "fleet-missing"
_LEAVE_OUT = "Leave out:  "


class NodeGroup(NamedTuple):
    """Nodes (none if unknown), and what is wrong with just these, worst first."""

    nodes: tuple[str, ...]
    findings: Sequence[Finding]


def group_by_nodes(findings: Sequence[Finding]) -> list[NodeGroup]:
    """The missing first, then by level and number of nodes."""
    groups: dict[frozenset[str], list[Finding]] = defaultdict(list)
    for finding in findings:
        groups[frozenset(finding.nodes)].append(finding)
    rows = [
        NodeGroup(group[0].nodes, sorted(group, key=lambda finding: -finding.level.rank))
        for group in groups.values()
    ]
    return sorted(rows, key=_urgency)


def _urgency(group: NodeGroup) -> tuple[bool, int, int]:
    missing = any(finding.check == _MISSING for finding in group.findings)
    return not missing, -group.findings[0].level.rank, -len(group.nodes)


def add_groups(page: Page, report: Report) -> None:
    for nodes, findings in group_by_nodes(report.complaints):
        page.rows.append("")
        if nodes:
            count = page.say(quantity(len(nodes), "node")) + "  "
            names = _cut(one_line(compress(nodes)), page.width - width(count))
            page.rows.append(page.styled(count, bold=True) + names)
        for finding in findings:
            page.title(finding.level, finding.title, finding.check, indent=2 if nodes else 0)
            if finding.check == _MISSING and finding.observed:
                page.dim("    " + one_line(page.say(finding.observed)), 4)
    fleet = report.fleet
    if fleet and fleet.passing and (out := {*fleet.failing, *fleet.missing}):
        head = page.say(_LEAVE_OUT)
        room = page.width - width(head)
        first, *more = columns.wrap_list(one_line(compress(sorted(out))), room)
        page.rows += ["", head + first, *(" " * width(head) + row for row in more)]


def _cut(names: str, room: int) -> str:
    if len(names) <= room:
        return names
    return names[: room - len(_CUT)].rpartition(",")[0] + _CUT
