"""Ceilings of the house, which only fall; tests/ceilings.txt holds them, a row per measure.

A ceiling leaves room of one percent for parallel work. It is too high if it is more than two
percent above the count; ``python -m tests.house --lower`` lowers it then, and resolves a merge
conflict in the file by taking the lower row.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

FILE = Path(__file__).with_name("ceilings.txt")
_HEADER = (
    "# Ceilings that only fall; `python -m tests.house --lower` lowers those that are too high.\n"
    "# ceiling      goal  measure\n"
)
_ROW = re.compile(r"^ *(\d+) +(\d+|-)  (\S.*)$", re.MULTILINE)
_FEW = 3  # counts by which any ceiling may be too high


class Ceiling(NamedTuple):
    """What a count may not exceed, and what it should become."""

    maximum: int
    goal: int | None = None


def read_ceilings(text: str) -> dict[str, Ceiling]:
    """The lowest ceiling of each measure; lines of a merge conflict are ignored."""
    ceilings: dict[str, Ceiling] = {}
    for maximum, goal, name in _ROW.findall(text):
        ceiling = Ceiling(int(maximum), None if goal == "-" else int(goal))
        ceilings[name] = min(ceiling, ceilings.get(name, ceiling), key=lambda row: row.maximum)
    return ceilings


def write_ceilings(ceilings: Mapping[str, Ceiling]) -> str:
    rows = (
        f"{maximum:9}  {'-' if goal is None else goal:>8}  {name}\n"
        for name, (maximum, goal) in ceilings.items()
    )
    return _HEADER + "".join(rows)


def is_too_high(ceiling: Ceiling, count: int) -> bool:
    return ceiling.maximum > count + count // 50 + _FEW


def lower(ceilings: Mapping[str, Ceiling], counts: Iterable[tuple[str, int]]) -> dict[str, Ceiling]:
    """The ceilings of these counts: none rises, a new measure gets one."""
    lowered = {}
    for name, count in counts:
        ceiling = ceilings.get(name, Ceiling(count + count // 100))
        if is_too_high(ceiling, count):
            ceiling = ceiling._replace(maximum=count + count // 100)
        lowered[name] = ceiling
    return lowered
