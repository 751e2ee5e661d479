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


def schema(kind: type[Report | Diagnosis] = Report) -> dict[str, Any]:
    """The published JSON Schema of a report or diagnosis; in a schema number only additions."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"ascend-doctor {kind.__name__.lower()}",
        **msgspec.json.schema(kind),
    }
