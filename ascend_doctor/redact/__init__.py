"""Takes secrets, names and addresses out of everything that leaves the doctor.

Pseudonyms are stable for one machine: equal stays equal, and addresses keep their subnets, so that
redacted facts are judged as the real ones are. docs/redaction.md says what is hidden.
"""

from ascend_doctor.redact.facts_redactor import redactor
from ascend_doctor.redact.local import local_key, ours
from ascend_doctor.redact.redactor import Redactor

__all__ = ["Redactor", "local_key", "ours", "redactor"]
