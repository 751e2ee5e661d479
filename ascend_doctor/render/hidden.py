"""What redaction hides in a report, for the eyes of whoever is about to paste it."""

from collections.abc import Mapping
from itertools import groupby
from typing import Any

from ascend_doctor.findings import quantity
from ascend_doctor.render.page import Page

_LABEL = 18
_SHOWN = 4  # letters of a secret: enough to know which
# People must see these whole, to check that the right thing was hidden.
_PLAIN = frozenset({"host", "user", "home", "address", "MAC address", "serial", "GUID"})


def render(hidden: Mapping[tuple[str, str, str], int], **paper: Any) -> str:
    """A line for each hidden text: kind, original, replacement, count."""
    page = Page(label=_LABEL, **paper)
    page.rows.append(page.styled(f"{quantity(len(hidden), 'text')} hidden:", bold=True))
    for kind, rows in groupby(sorted(hidden.items()), key=lambda row: row[0][0]):
        for number, ((_, was, now), count) in enumerate(rows):
            times = f" ({count} x)" if count > 1 else ""
            short = f"{was[:_SHOWN]}... ({quantity(len(was), 'character')})"
            shown = was if kind in _PLAIN else short
            page.field("" if number else kind, f"{shown} -> {now}{times}")
    return page.text
