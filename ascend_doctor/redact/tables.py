"""Values below what names them: in tables, and alone in the line below a line with the name."""

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ascend_doctor.patterns import defer
from ascend_doctor.redact.meanings import STEMS, Cell, meaning
from ascend_doctor.redact.shapes import compile_pattern

# Alone, these head a column.
_HEADINGS = {"user": "user", "login": "user", "owner": "user", "host": "host", "node": "host"}
# A line that names what the next one has alone.
_LABELS = (
    ("password", r"[\w ]*pass(?:word|phrase)\b[^:=]{0,60}:"),
    ("token", r"[\w ]*(?:secret|token|key)(?: \(\w+\))?:?"),
    ("staff", r"(?:employee|staff)[ _-]?(?:id|no|number):?"),
    ("serial", r"[\w ]*serial (?:number|no):?"),
)
_CELLS = {
    "staff": defer(r"[A-Za-z]?\d{5,10}"),
    "password": defer(r"(?=.*[^\d.\s-])(?!(?:yes|no|none|true|false)\b)\S{4,}"),
    "token": defer(r"(?=\S*\d)(?=\S*[A-Za-z])\S{12,}"),
    "user": defer(r"[^\W\dA-Z][\w.-]*|\d{5,16}"),
    "host": defer(r"[a-z][\w-]*(?:\d|\.[a-z])[\w.-]*"),
    "serial": defer(r"(?=\S*\d)[A-Z0-9-]{6,}"),
}
_LEAST_COLUMNS, _LONGEST = 2, 500
# A line of these is drawn between rows.
_RULED = frozenset(" -=+|│┃─┼:")
_COLUMNS = (
    (defer("[|│┃]"), defer("[^|│┃]+")),
    (defer("\t"), defer("[^\t]+")),
    (defer(r"^[^,\s][^,]*(?:,[^,\s][^,]*){2,}$"), defer("[^,]+")),
    (defer(r"^[^;\s][^;]*(?:;[^;\s][^;]*){2,}$"), defer("[^;]+")),
    (defer(""), defer(r"\S+(?: \S+)*")),
)
# Words of capitals head columns, however far apart; a log's prefix may precede them.
_CAPITALS = defer(r"""(?:[ \t]*\b[A-Z][A-Z_()%/-]+){3,}["'}\]]*$""")
_PIECES = defer(r"""[^\s"'+}\]]+""")


# A row with a sentence describes; it holds no value.
_PROSE = defer(r"(?:[^\s|]+ ){5}|\w\w[.。]\s*(?:\||$)")


# A line that may be a heading or a label.
_TELLING = defer(rf"{STEMS.pattern}|node|login|value|值", re.IGNORECASE)


class _Heading(NamedTuple):
    """Kinds and shapes of columns that are hidden, by number; "" is what the cell before names."""

    columns: dict[int, tuple[str, re.Pattern[str] | None]]
    cell: re.Pattern[str]
    size: int
    prefix: int

    def cells_below(self, line: str) -> Iterator[Cell]:
        cells = _split(line, self.cell)
        skipped = {self.size: 0, self.size - self.prefix: self.prefix}.get(len(cells))
        if skipped is None or _PROSE.search(line):
            return
        for number, column in self.columns.items():
            at = number - skipped
            kind, pattern = column
            if pattern is None and (named := meaning(cells[at - 1][0].strip())):
                kind, pattern = named.kind, compile_pattern(named.value)
            value = cells[at][0].strip()
            if pattern and pattern.fullmatch(value):
                start = cells[at].start() + cells[at][0].index(value)
                yield Cell(kind, start, start + len(value))


def find_cells(text: str) -> Iterator[Cell]:
    """The values below such headings, in the order of the text."""
    headings: tuple[_Heading, ...] = ()
    label, at, before = "", 0, ""
    lines = re.split(r"(\n|\\n)", text)
    for whole, end in itertools.zip_longest(lines[::2], lines[1::2], fillvalue=""):
        line, start = whole if len(whole) < _LONGEST else "", at
        at += len(whole) + len(end)
        if line and not line.isspace() and set(line) <= _RULED:
            continue
        for kind, first, last in _below(line, headings, label) if headings or label else ():
            yield Cell(kind, start + first, start + last)
        telling = _TELLING.search(line)
        if headings and _count(line) < _LEAST_COLUMNS:
            headings = ()
        elif telling and _count(line) != _count(before):  # a first line of its shape
            headings = _headings_of(line) or headings
        label, before = _label_of(line.strip()) if telling else "", line


def _count(line: str) -> int:
    return len(_split(line, _PIECES if _CAPITALS.search(line) else _columns_of(line)))


def _below(line: str, headings: Iterable[_Heading], label: str) -> list[Cell]:
    value = line.strip()
    if label and _CELLS[label].fullmatch(value):
        start = line.index(value)
        return [Cell("user" if label == "staff" else label, start, start + len(value))]
    return next(filter(None, ([*heading.cells_below(line)] for heading in headings)), [])


def _split(line: str, cell: re.Pattern[str]) -> list[re.Match[str]]:
    return [match for match in cell.finditer(line) if match[0].strip()]


def _columns_of(line: str) -> re.Pattern[str]:
    return next(cell for sign, cell in _COLUMNS if sign.search(line))


def _headings_of(line: str) -> tuple[_Heading, ...]:
    run = _CAPITALS.search(line)
    headings = []
    for cell in (_PIECES, _columns_of(line)) if run else (_columns_of(line),):
        cells = _split(line, cell)
        columns = {n: kind for n, each in enumerate(cells) if (kind := _kind_of(each[0], line))}
        if columns and len(cells) > 1:
            words = run if cell is _PIECES else None
            prefix = sum(each.end() <= words.start() for each in cells) if words else 0
            headings.append(_Heading(columns, cell, len(cells), prefix))
    return tuple(headings)


def _kind_of(heading: str, line: str) -> tuple[str, re.Pattern[str] | None] | None:
    name = heading.strip(" \t").partition("(")[0]
    if not re.fullmatch(r"[\w .-]{1,40}", name):
        return None
    if name.lower() in {"value", "值"} and not line.startswith(heading):
        return "", None
    kind = _HEADINGS.get(name.lower(), "host" if name == "NAME" and "INTERNAL-IP" in line else "")
    sense = None if kind else meaning(name)
    if sense:
        kind = {"secret": "password"}.get(sense.kind, sense.kind)
        cell = None if re.search(r"[._]|[a-z][A-Z]", name) else _CELLS.get(kind)
        return sense.kind, cell or compile_pattern(sense.value)
    return (kind, _CELLS[kind]) if kind else None


def _label_of(line: str) -> str:
    lowered = line.lower()
    return next((kind for kind, name in _LABELS if re.fullmatch(name, lowered)), "")
