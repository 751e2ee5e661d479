"""The report as JSON, and the JSON Schema of that."""

from typing import Any

import msgspec

from ascend_doctor.diagnosis.result import Diagnosis
from ascend_doctor.render.plain import json_text
from ascend_doctor.report import Report


def render(report: Report) -> str:
    """One JSON object, readable, with a final newline."""
    return pretty(report)


def pretty(value: Any) -> str:
    """Readable JSON of any struct, without raw control characters."""
    return json_text(msgspec.json.format(msgspec.json.encode(value), indent=2)) + "\n"


def schema() -> dict[str, Any]:
    """The published JSON Schema of a report; within a schema number only additions."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "ascend-doctor report",
        **msgspec.json.schema(Report),
    }


def diagnosis_schema() -> dict[str, Any]:
    """The published JSON Schema of a diagnosis; within a schema number only additions."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "ascend-doctor diagnosis",
        **msgspec.json.schema(Diagnosis),
    }
