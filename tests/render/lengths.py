"""How long the reports of the recorded broken machines are, as a table of docs/reports.md.

``lengths-before.yaml`` has the figures of the last commit before reports had a line a subject and
folded what follows from an error (a4cb27d^ of 2026-11-22), of the same machines at the same width.

    python -m tests.render.lengths      writes the table
"""

from __future__ import annotations

import contextlib
import functools
import io
import re
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ascend_doctor.cli import run
from ascend_doctor.machine.parsing import read_yaml
from tests.test_machines import HEALTHY, NAMES, folder_of

BROKEN = tuple(name for name in NAMES if name not in HEALTHY)
PAGE = Path(__file__).parents[2] / "docs" / "reports.md"
WIDTH = 100
_BEFORE = Path(__file__).with_name("lengths-before.yaml")
# Deeper than the text of a field.
_COMMAND = re.compile(r"^ {14}\S|^\S+ <<")


class Length(NamedTuple):
    """Lines, errors that stand by themselves, the line of the first command, words before it."""

    lines: int
    errors: int
    first: int | None
    words: int | None


def measure(text: str) -> Length:
    rows, blocks = text.splitlines(), text.split("\n\n")  # head, subjects, ..., verdict
    first = next((number for number, row in enumerate(rows) if _COMMAND.match(row)), None)
    return Length(
        lines=len(rows),
        errors=sum(block.startswith(("✗ ", "x ")) for block in blocks[2:-1]),
        first=None if first is None else first + 1,
        words=None if first is None else len(" ".join(rows[:first]).split()),
    )


@functools.cache
def report(name: str) -> str:
    """What check prints of a recorded machine at 100 columns, without colour."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        run(["check", "-l", "0", "-q", "--replay", str(folder_of(name)), "--redact"])
    return out.getvalue()


def before() -> dict[str, Length]:
    rows = read_yaml(_BEFORE)
    return {name: Length(**row) for name, row in rows.items()}


def table() -> str:
    return "\n".join(_rows()) + "\n"


def _rows() -> Iterator[str]:
    old, new = before(), {name: measure(report(name)) for name in BROKEN}
    yield "| machine | lines | errors by themselves | line of the first command | words before it |"
    yield "| --- | --- | --- | --- | --- |"
    for name in BROKEN:
        cells = (_cell(a, b) for a, b in zip(old[name], new[name], strict=True))
        yield f"| {name} | " + " | ".join(cells) + " |"
    medians = (
        _cell(_median(old, field), _median(new, field)) for field in range(len(Length._fields))
    )
    yield "| median | " + " | ".join(medians) + " |"


def _median(lengths: dict[str, Length], field: int) -> int:
    return round(statistics.median(length[field] or 0 for length in lengths.values()))


def _cell(old: int | None, new: int | None) -> str:
    return f"{'none' if old is None else old} → {'none' if new is None else new}"


def fill_page(text: str) -> str:
    """The page with the table between its marks."""
    start, end = "<!-- lengths -->\n", "<!-- end of lengths -->"
    head, rest = text.split(start)
    return f"{head}{start}\n{table()}\n{end}{rest.split(end)[1]}"


if __name__ == "__main__":
    PAGE.write_text(fill_page(PAGE.read_text("utf-8")), "utf-8")
