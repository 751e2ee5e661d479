"""The report as GitHub Actions annotations."""

from ascend_doctor.findings import Finding, Level
from ascend_doctor.render.fields import details
from ascend_doctor.render.plain import one_line
from ascend_doctor.report import Report

# GitHub has no level for the undetermined.
_COMMANDS = {Level.ERROR: "error", Level.UNKNOWN: "warning", Level.WARNING: "warning"}


def render(report: Report) -> str:
    """A workflow command a finding, and the verdict as a notice."""
    label = "ascend-doctor (simulated)" if report.simulated else "ascend-doctor"
    rows = [f"::warning title={label}::{_data(one_line(notice))}" for notice in report.notices]
    rows += [
        _annotation(finding, label) for finding in report.findings if finding.level in _COMMANDS
    ]
    rows.append(f"::notice title={label}::{_data(report.verdict.text())}")
    return "\n".join(rows) + "\n"


def _annotation(finding: Finding, label: str) -> str:
    title = _property(f"{label} {finding.check}: {one_line(finding.title)}")
    spot = finding.location
    where = f"file={_property(one_line(spot.file))},line={spot.line}," if spot else ""
    return f"::{_COMMANDS[finding.level]} {where}title={title}::{_data(details(finding))}"


def _data(text: str) -> str:
    """Escaped as in actions/toolkit@main:packages/core/src/command.ts."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
