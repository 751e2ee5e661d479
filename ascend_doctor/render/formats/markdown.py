"""The report as Markdown, for a bug report or a job summary."""

import re
from collections.abc import Iterable, Sequence

from ascend_doctor.findings import Finding
from ascend_doctor.language import say
from ascend_doctor.render.fields import fields
from ascend_doctor.render.pairs import matrix_of
from ascend_doctor.render.plain import lines, one_line
from ascend_doctor.report import Report

_NODES = 16  # in the matrix of pairs
# All that begins markup, a mention, a formula or HTML on GitHub or GitLab.
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#+!|~&@$-])")
# Code hosts link these even if escaped: mentions, issues, commits of a repository.
_LINKED = re.compile(r"\\([@#])")


def render(report: Report) -> str:
    """Verdict, findings by severity, then the environment in a fold."""
    parts = [f"## {headline(report)}", "", *verdict(report)]
    for finding in report.complaints:
        parts += about(finding, report)
    parts += _pairs(report)
    if report.taken_at:
        fold = f"<details><summary>{say('Environment')}</summary>"
        parts += [fold, "", *_environment(report), "", "</details>"]
    return "\n".join(parts) + "\n"


def headline(report: Report) -> str:
    """Who says it, and whether of a simulated NPU."""
    simulated = f" ({say('SIMULATED: no NPU was touched')})" if report.simulated else ""
    return f"ascend-doctor {plain(report.tool_version)}{simulated}"


def verdict(report: Report) -> list[str]:
    texts = (*report.notices, report.verdict.text())
    return [line for text in texts for line in (f"**{plain(say(text))}**", "")]


def about(finding: Finding, report: Report) -> list[str]:
    title = f"### {say(finding.level.value)}: {plain(say(finding.title))}"
    rows = [title, "", f"- {say('Check')}: `{finding.check}`"]
    rows += [
        f"- {say(label)}: {plain(say(text))}"
        for label, text in fields(finding, report.consequences(finding), say)
    ]
    if finding.remedy and finding.remedy.commands:
        rows += ["", *fence("\n".join(finding.remedy.commands), "bash")]
    return [*rows, ""]


def fence(text: str, language: str = "text") -> list[str]:
    """The text without control characters, in a fence that it does not contain."""
    shown = lines(text)
    fence = "`" * max(3, 0, *(1 + len(run) for run in re.findall("`+", "\n".join(shown))))
    return [f"{fence}{language}", *shown, fence]


def _pairs(report: Report) -> list[str]:
    matrix = matrix_of(report, most=_NODES)
    if matrix is None:
        return []
    rows = (
        (name, *(say(cell.text) if cell else "" for cell in row))
        for name, row in zip(matrix.names, matrix.rows, strict=True)
    )
    return [say(matrix.title), "", *table(("", *matrix.names), rows), ""]


def _environment(report: Report) -> list[str]:
    facts = report.snapshot
    rows = [(say("taken"), report.taken_at), (say("device"), report.device)]
    if facts.host is not None:
        rows.append((say("host"), f"{facts.host.os_id} {facts.host.os_version} {facts.host.arch}"))
    if facts.driver is not None and facts.driver.version:
        rows.append((say("driver"), facts.driver.version))
    if facts.cann is not None and facts.cann.in_use is not None:
        rows.append(("CANN", facts.cann.in_use.version or say("unknown")))
    if facts.python is not None:
        rows.append(("Python", facts.python.version))
        for name in ("torch", "torch-npu", "megatron-core", "mindspeed", "mcore-bridge"):
            distribution = facts.python.find(name)
            if distribution is not None:
                rows.append((name, distribution.version))
    return table(("", ""), rows)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    shown = [" | ".join(map(plain, row)) for row in (head, *rows)]
    shown.insert(1, " | ".join("---" for _ in head))
    return [f"| {row} |" for row in shown]


def plain(text: str) -> str:
    """Plain text in Markdown: one line, without markup, mention or raw HTML."""
    return _LINKED.sub("\\1\u2060", _SPECIAL.sub(r"\\\1", one_line(text.replace("\n", " "))))
