"""Facts into findings: what a check sees, says and raises, and what several checks need."""

from collections.abc import Iterator

from ascend_doctor.errors import NeedsRoot, NotApplicable, Unknown, Unresolved
from ascend_doctor.findings import (
    Finding,
    Level,
    Place,
    Remedy,
    first_of,
    quantity,
    show_bytes,
    spans,
)
from ascend_doctor.judging.judge import Case, check, error, note, unknown, warning
from ascend_doctor.judging.texts import Texts

Findings = Iterator[Finding]

__all__ = ["Case", "Finding", "Findings", "Level", "NeedsRoot", "NotApplicable", "Place", "Remedy"]
__all__ += ["Texts", "Unknown", "Unresolved", "check", "error", "first_of", "note", "quantity"]
__all__ += ["show_bytes", "spans", "unknown", "warning"]
