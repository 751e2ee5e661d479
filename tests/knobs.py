"""What may be asked of a run of the tests; `python -m tests.acceptance --help` has the options."""

import os
import random
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TypeVar

Row = TypeVar("Row")
# The seed by which rows of tables are drawn; "" in an ordinary run.
WHOLE = os.environ.get("ASCEND_DOCTOR_TEST_WHOLE", "")


def draw(rows: Iterable[Row], ordinary: Collection[Row], count: int) -> list[Row]:
    """The ordinary rows; for the need whole-tables ``count`` of the others, drawn by WHOLE."""
    if not WHOLE:
        return [*ordinary]
    rest = [row for row in rows if row not in ordinary]
    return random.Random(WHOLE).sample(rest, min(count, len(rest)))


def seed(default: int) -> int:
    return int(os.environ.get("ASCEND_DOCTOR_TEST_SEED") or default)


def record_path(name: str) -> Path | None:
    folder = os.environ.get("ASCEND_DOCTOR_TEST_RECORD")
    return Path(folder, name) if folder else None
