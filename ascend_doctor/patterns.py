"""Regular expressions: compiled when first used, as half of level 0's never are; in tables."""

import functools
import re
from pathlib import Path
from typing import Any, cast


class _Deferred:
    def __init__(self, pattern: str, flags: int) -> None:
        self.pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(self.pattern, self._flags), name)
        setattr(self, name, value)  # the next look-up ends there
        return value


def defer(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """``re.compile`` at the first use, which raises re.error for an invalid pattern."""
    return cast("re.Pattern[str]", _Deferred(pattern, flags))


def read_rows(table: Path) -> list[str]:
    """Rows of a table; # begins a remark."""
    return [row for row in table.read_text("utf-8").splitlines() if row and row[0] != "#"]


def fill(pattern: str, named: dict[str, list[str]]) -> str:
    """A pattern with named ones in it."""
    return re.sub("@([a-z0-9]+)@", lambda match: named[match[1]][0], pattern)


def patterns_of(module: str) -> list[re.Pattern[str]]:
    """Those of a module's file, in the order of patterns.txt beside it, behind >MODULE."""
    path = Path(module)
    return [*map(defer, _read_sections(path.with_name("patterns.txt"))[path.stem])]


@functools.cache
def _read_sections(table: Path) -> dict[str, list[str]]:
    sections: dict[str, list[str]] = {}
    name = ""
    for row in read_rows(table):
        if row[0] == ">":
            name = row[1:]
        else:
            sections.setdefault(name, []).append(row)
    return sections


def read_patterns(table: Path) -> dict[str, list[str]]:
    """Patterns of a table by name; @x@ in one is an earlier one."""
    named: dict[str, list[str]] = {}
    for row in read_rows(table):
        name, _, pattern = row.partition("  ")
        named.setdefault(name, []).append(fill(pattern, named))
    return named


def compile_beside(module: str) -> dict[str, re.Pattern[str]]:
    """The patterns of the table that is called like a module's file."""
    table = read_patterns(Path(module).with_suffix(".txt"))
    return {name: re.compile(row) for name, (row,) in table.items()}
