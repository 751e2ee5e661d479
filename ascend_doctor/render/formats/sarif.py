"""The report as SARIF 2.1.0, for code hosts and security dashboards."""

import json
import re
from typing import Any
from urllib.parse import quote

from ascend_doctor.findings import Finding, Level
from ascend_doctor.render.fields import details
from ascend_doctor.render.manual import page_of
from ascend_doctor.render.plain import one_line
from ascend_doctor.report import Report

# SARIF's note is for results that are neither good nor bad.
_LEVELS = {Level.ERROR: "error", Level.UNKNOWN: "note", Level.WARNING: "warning"}

# OWNER/REPO@REF:path:line, as checks cite their sources.
_REF = re.compile(r"([\w.-]+/[\w.-]+)@([\w./-]+):([\w./+-]+?)(?::(\d+))?")


def render(report: Report) -> str:
    """One run; a result a finding that is an error, a warning or unknown."""
    findings = [finding for finding in report.findings if finding.level in _LEVELS]
    rules = list(dict.fromkeys(finding.check for finding in findings))
    run = {
        "tool": {
            "driver": {
                "name": "ascend-doctor",
                "semanticVersion": report.tool_version,
                "rules": [_rule(name, findings) for name in rules],
            }
        },
        "invocations": [_invocation(report)],
        "properties": {"simulated": report.simulated},
        "results": [_result(finding, rules.index(finding.check)) for finding in findings],
    }
    log = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [run],
    }
    return json.dumps(log, indent=2) + "\n"


def _rule(name: str, findings: list[Finding]) -> dict[str, Any]:
    rule: dict[str, Any] = {"id": name, "help": {"text": f"ascend-doctor explain {name}"}}
    refs = (ref for finding in findings if finding.check == name for ref in finding.refs)
    link = page_of(name) or next(filter(None, map(web_address, refs)), "")
    return {**rule, "helpUri": link} if link else rule


def web_address(ref: str) -> str:
    """The URL of a source OWNER/REPO@REF:path with a line, or of a URL; else ""."""
    if re.fullmatch(r"https?://[\x21-\x7e]+", ref):
        return ref
    match = _REF.fullmatch(ref)
    if match is None:
        return ""
    repository, commit, path, line = match.groups()
    address = f"https://github.com/{repository}/blob/{quote(commit)}/{quote(path)}"
    return f"{address}#L{line}" if line else address


def _invocation(report: Report) -> dict[str, Any]:
    ended = {"executionSuccessful": not report.interrupted, "exitCode": report.verdict.exit_code}
    notices = [
        {"level": "warning", "message": {"text": one_line(notice)}} for notice in report.notices
    ]
    return {**ended, "toolExecutionNotifications": notices} if notices else ended


def _result(finding: Finding, rule: int) -> dict[str, Any]:
    # GitHub refuses results without a file, which most findings lack.
    physical: dict[str, Any] = {"artifactLocation": {"uri": f"machine/{finding.check}"}}
    if finding.location is not None:
        region = {"startLine": finding.location.line, "startColumn": finding.location.column}
        physical = {"artifactLocation": {"uri": quote(finding.location.file)}, "region": region}
    return {
        "ruleId": finding.check,
        "ruleIndex": rule,
        "level": _LEVELS[finding.level],
        "message": {"text": details(finding)},
        "locations": [
            {
                "logicalLocations": [{"name": finding.check, "kind": "module"}],
                "physicalLocation": physical,
                "message": {"text": one_line(finding.title)},
            }
        ],
    }
