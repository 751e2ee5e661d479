"""The report as a text file for the Prometheus node exporter."""

from collections.abc import Hashable, Iterable, Iterator
from typing import TypeVar

from ascend_doctor.findings import Level
from ascend_doctor.render.plain import one_line
from ascend_doctor.report import Report
from ascend_doctor.timestamps import seconds

Key = TypeVar("Key", bound=Hashable)


def render(report: Report) -> str:
    """Gauges: findings by level, the worst level of each check, exit code, time of the run.

    Of a fleet also each node's verdict and findings.
    """
    counts = {level: sum(finding.level is level for finding in report.findings) for level in Level}
    worst = _worst((finding.check, finding.level) for finding in report.findings)
    simulated = str(report.simulated).lower()
    taken = seconds(report.taken_at)
    rows = [
        *_head("findings", "Findings of the last run by level."),
        *(f'ascend_doctor_findings{{level="{level.value}"}} {n}' for level, n in counts.items()),
        *_head("check", "Worst level of a check: 0 ok, 1 skipped, 2 warning, 3 unknown, 4 error."),
        *(f'ascend_doctor_check{{check="{name}"}} {level.rank}' for name, level in worst.items()),
        *_head("exit_code", "Exit code of the last run."),
        f"ascend_doctor_exit_code {report.verdict.exit_code}",
        # A node whose timer stopped would else look well for ever.
        *_head("last_run_timestamp_seconds", "When the last run took its facts."),
        f"ascend_doctor_last_run_timestamp_seconds {taken:.0f}",
        *_head("info", "Version of the doctor, and whether the NPUs were simulated."),
        f'ascend_doctor_info{{version="{report.tool_version}",simulated="{simulated}"}} 1',
        *_nodes(report),
    ]
    return "\n".join(rows) + "\n"


def _nodes(report: Report) -> Iterator[str]:
    fleet = report.fleet
    if fleet is None:
        return
    yield from _head("node", "Verdict of a node: 0 passed, 1 none, 2 failed, 3 missing.")
    for value, nodes in enumerate((fleet.passing, fleet.untold, fleet.failing, fleet.missing)):
        yield from (f'ascend_doctor_node{{node="{_escape(name)}"}} {value}' for name in nodes)
    worst = _worst(
        ((finding.check, node), finding.level)
        for finding in report.complaints
        for node in finding.nodes
    )
    yield from _head("node_check", "Worst level of a check on a node, where it is not well.")
    for (name, node), level in worst.items():
        labels = f'check="{name}",node="{_escape(node)}"'
        yield f"ascend_doctor_node_check{{{labels}}} {level.rank}"


def _worst(levels: Iterable[tuple[Key, Level]]) -> dict[Key, Level]:
    worst: dict[Key, Level] = {}
    for key, level in levels:
        worst[key] = max(level, worst.get(key, Level.OK))
    return worst


def _escape(label: str) -> str:
    """A label value, harmless on a terminal (Prometheus text format)."""
    return one_line(label).replace("\\", r"\\").replace('"', r"\"")


def _head(name: str, text: str) -> tuple[str, str]:
    return f"# HELP ascend_doctor_{name} {text}", f"# TYPE ascend_doctor_{name} gauge"
