"""What may be asked of a run of the tests; `python -m tests.acceptance --help` has the options."""

import os
from pathlib import Path

# All rows of tables, and more random points.
WHOLE = bool(os.environ.get("ASCEND_DOCTOR_TEST_WHOLE"))


def seed(default: int) -> int:
    return int(os.environ.get("ASCEND_DOCTOR_TEST_SEED") or default)


def record_path(name: str) -> Path | None:
    folder = os.environ.get("ASCEND_DOCTOR_TEST_RECORD")
    return Path(folder, name) if folder else None
