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

    Of a fleet with ``scope="fleet"``, beside those of a node; and each node's verdict and findings.
    """
    counts = {level: sum(finding.level is level for finding in report.findings) for level in Level}
    worst = _worst((finding.check, finding.level) for finding in report.findings)
    scope = {"scope": "fleet"} if report.fleet else {}
    simulated = str(report.simulated).lower()
    rows = [
        *_head("findings", "Findings of the last run by level."),
        *(_row("findings", n, level=level.value, **scope) for level, n in counts.items()),
        *_head("check", "Worst level of a check: 0 ok, 1 skipped, 2 warning, 3 unknown, 4 error."),
        *(_row("check", level.rank, check=name, **scope) for name, level in worst.items()),
        *_head("exit_code", "Exit code of the last run."),
        _row("exit_code", report.verdict.exit_code, **scope),
        # A node whose timer stopped would else look well for ever.
        *_head("last_run_timestamp_seconds", "When the last run took its facts."),
        _row("last_run_timestamp_seconds", round(seconds(report.taken_at)), **scope),
        *_head("info", "Version of the doctor, and whether the NPUs were simulated."),
        _row("info", 1, version=report.tool_version, simulated=simulated, **scope),
        *_nodes(report),
    ]
    return "\n".join(rows) + "\n"


def _row(name: str, value: int, **labels: str) -> str:
    """A sample; labels are harmless on a terminal (Prometheus text format)."""
    escaped = str.maketrans({"\\": r"\\", '"': r"\""})
    texts = {key: one_line(text).translate(escaped) for key, text in labels.items()}
    pairs = ",".join(f'{key}="{text}"' for key, text in texts.items())
    return f"ascend_doctor_{name}{f'{{{pairs}}}' if pairs else ''} {value}"


def _nodes(report: Report) -> Iterator[str]:
    fleet = report.fleet
    if fleet is None:
        return
    yield from _head("node", "Verdict of a node: 0 passed, 1 none, 2 failed, 3 missing.")
    for value, nodes in enumerate((fleet.passing, fleet.untold, fleet.failing, fleet.missing)):
        yield from (_row("node", value, node=name) for name in nodes)
    worst = _worst(
        ((finding.check, node), finding.level)
        for finding in report.complaints
        for node in finding.nodes
    )
    yield from _head("node_check", "Worst level of a check on a node, where it is not well.")
    for (name, node), level in worst.items():
        yield _row("node_check", level.rank, check=name, node=node)


def _worst(levels: Iterable[tuple[Key, Level]]) -> dict[Key, Level]:
    worst: dict[Key, Level] = {}
    for key, level in levels:
        worst[key] = max(level, worst.get(key, Level.OK))
    return worst


def _head(name: str, text: str) -> tuple[str, str]:
    return f"# HELP ascend_doctor_{name} {text}", f"# TYPE ascend_doctor_{name} gauge"
