"""The failure of the catalogue that an error of a probe is."""

import functools
import re

from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.schema import KnownFailure


@functools.cache
def _causes() -> tuple[KnownFailure, ...]:
    return tuple(
        row
        for row in Catalog().recognized_failures.values()
        if row.severity == "fatal" and not (row.secondary or row.victim)
    )


@functools.cache
def find_failure(text: str) -> KnownFailure | None:
    """The failure in an exception's text; None if none is known, or several are."""
    known = [row for row in _causes() if _is(row, text)]
    beaten = {name for row in known for name in row.beats}
    causes = [row for row in known if row.id not in beaten]
    return causes[0] if len(causes) == 1 else None


def _is(row: KnownFailure, text: str) -> bool:
    if row.unless and re.search(row.unless, text):
        return False
    return any(re.search(pattern, text) for pattern in row.patterns)
