"""The report as Markdown, for a bug report or a job summary."""

from __future__ import annotations

import re

from ascend_doctor.findings import Finding, Level
from ascend_doctor.render.plain import lines, one_line, shortened
from ascend_doctor.report import Report

_SHOWN = (Level.ERROR, Level.WARNING, Level.UNKNOWN)
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#+!|~&@-])")


def render(report: Report) -> str:
    """Verdict, findings by severity, then the environment in a fold."""
    simulated = " (SIMULATED: no NPU was touched)" if report.simulated else ""
    parts = [f"## ascend-doctor {_text(report.tool_version)}{simulated}", ""]
    parts += [f"**{_text(report.verdict.text())}**", ""]
    for level in _SHOWN:
        for finding in report.findings:
            if finding.level is level:
                parts += _finding(finding)
    parts += [
        "<details><summary>Environment</summary>",
        "",
        *_environment(report),
        "",
        "</details>",
    ]
    return "\n".join(parts) + "\n"


def _finding(finding: Finding) -> list[str]:
    rows = [f"### {finding.level.value}: {_text(finding.title)}", "", f"- check: `{finding.check}`"]
    pairs = {
        "nodes": shortened(finding.nodes),
        "ranks": ", ".join(map(str, finding.ranks)),
        "devices": ", ".join(map(str, finding.devices)),
        "found": finding.found,
        "wanted": finding.wanted,
        "why": finding.because,
        "source": ", ".join(finding.refs),
        "do": finding.remedy.summary if finding.remedy else "",
    }
    rows += [f"- {label}: {_text(text)}" for label, text in pairs.items() if text]
    if finding.remedy and finding.remedy.commands:
        commands = [one for text in finding.remedy.commands for one in lines(text)]
        fence = "`" * max(3, 1 + max(len(run) for one in ("", *commands) for run in _ticks(one)))
        rows += ["", f"{fence}bash", *commands, fence]
    return [*rows, ""]


def _ticks(text: str) -> list[str]:
    return re.findall("`+", text) or [""]


def _environment(report: Report) -> list[str]:
    facts = report.snapshot
    rows = [("taken", report.taken_at), ("device", report.device)]
    if facts.host is not None:
        rows.append(("host", f"{facts.host.os_id} {facts.host.os_version} {facts.host.arch}"))
    if facts.driver is not None and facts.driver.version:
        rows.append(("driver", facts.driver.version))
    if facts.cann is not None and facts.cann.in_use is not None:
        rows.append(("CANN", facts.cann.in_use.version or "unknown"))
    if facts.python is not None:
        rows.append(("Python", facts.python.version))
        for name in ("torch", "torch-npu", "megatron-core", "mindspeed", "mcore-bridge"):
            found = facts.python.find(name)
            if found is not None:
                rows.append((name, found.version))
    return ["| | |", "| --- | --- |", *(f"| {_text(a)} | {_text(b)} |" for a, b in rows)]


def _text(text: str) -> str:
    """Plain text in Markdown: on one line, no markup, no mention, no raw HTML."""
    return _SPECIAL.sub(r"\\\1", one_line(text.replace("\n", " "))).replace("\\@", "@\u2060")
