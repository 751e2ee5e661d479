"""The findings as JSON lines: a line a finding, then a line with the verdict."""

import msgspec

from ascend_doctor.render.plain import json_text
from ascend_doctor.report import SCHEMA, Report


def render(report: Report) -> str:
    """Each line is an object with ``schema``, ``kind`` and the host's name."""
    head = {"schema": SCHEMA, "host": report.host, "simulated": report.simulated}
    rows = [
        {**head, "kind": "finding", **msgspec.to_builtins(finding)} for finding in report.findings
    ]
    rows.append({**head, "kind": "verdict", **msgspec.to_builtins(report.verdict)})
    return "".join(json_text(msgspec.json.encode(row)) + "\n" for row in rows)
