"""Folds known harmless warnings."""

import functools
import re

from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.schema import KnownWarning


@functools.cache
def _shipped() -> tuple[KnownWarning, ...]:
    return Catalog().known_warnings


def find_known(line: str) -> KnownWarning | None:
    """The known warning in a line."""
    return next((row for row in _shipped() if re.search(row.pattern, line)), None)


def fold_known(lines: list[str]) -> list[str]:
    """The lines without known warnings, and the count of these."""
    others = [line for line in lines if not find_known(line)]
    count = len(lines) - len(others)
    return others + ([f"({count} known harmless warning{'s' * (count > 1)})"] if count else [])
