"""The report as JSON, and the JSON Schema of that."""

from __future__ import annotations

from typing import Any

import msgspec

from ascend_doctor.report import Report


def render(report: Report) -> str:
    """One JSON object, readable, with a final newline."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n"


def schema() -> dict[str, Any]:
    """The published JSON Schema of a report; changes are additive within one schema number."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "ascend-doctor report",
        **msgspec.json.schema(Report),
    }
