"""Values below what names them: in tables, and alone in the line below a line with the name."""

import re
from collections.abc import Iterator
from typing import NamedTuple

# A heading with one of these words may name one.
_WORDS = "passw secret key token user login owner host node serial staff"
WORDS = tuple(_WORDS.split())
_HEADINGS = (
    ("password", r"(?:[\w ]*[_ ])?(?:pass(?:word|wd)|secret|(?:api|access|license)[ _]?key)"),
    ("token", r"(?:[\w ]*[_ ])?token"),
    ("user", r"user(?:name)?|login|owner"),
    ("host", r"host(?:name)?|node(?:name)?"),
    ("serial", r"serial(?: (?:number|no\.?))?"),
)
# A line that names what the next one has alone.
_LABELS = (
    ("password", r"[\w ]*pass(?:word|phrase)\b[^:=]{0,60}:"),
    ("token", r"[\w ]*(?:secret|token|key)(?: \(\w+\))?:?"),
    ("staff", r"(?:employee|staff)[ _-]?(?:id|no|number):?"),
    ("serial", r"[\w ]*serial (?:number|no):?"),
)
_CELLS = {
    "staff": re.compile(r"[A-Za-z]?\d{5,10}"),
    "password": re.compile(r"(?=.*[^\d.\s-])(?!(?:yes|no|none|true|false)\b)\S{4,}"),
    "token": re.compile(r"(?=\S*\d)(?=\S*[A-Za-z])\S{12,}"),
    "user": re.compile(r"[a-z_][\w.-]*"),
    "host": re.compile(r"[a-z][\w-]*(?:\d|\.[a-z])[\w.-]*"),
    "serial": re.compile(r"(?=\S*\d)[A-Z0-9-]{6,}"),
}
_BARRED, _PLAIN = re.compile(r"[^|│┃]+"), re.compile(r"\S+(?: \S+)*")
_LEAST_COLUMNS, _LONGEST = 2, 500
# A line of these is drawn between rows.
_RULED = frozenset(" -=+|│┃─┼")


class Cell(NamedTuple):
    """A value, its place in a text, and what its heading says that it is."""

    kind: str
    start: int
    end: int


def find_cells(text: str) -> Iterator[Cell]:
    """The values below such headings, in the order of the text."""
    headings: list[tuple[str, int, int, int]] = []
    count, at, label = 0, 0, ""
    for line in text.split("\n"):
        cells = list(_split(line)) if len(line) < _LONGEST else []
        kinds = [(_kind_of(name), number, first, last) for name, number, first, last in cells]
        if set(line) <= _RULED and line:
            pass
        elif len(cells) < _LEAST_COLUMNS:
            headings = []
            for value, _, first, last in cells if label else ():
                if _CELLS[label].fullmatch(value):
                    yield Cell("user" if label == "staff" else label, at + first, at + last)
        elif any(kind for kind, *_ in kinds):
            headings, count = [each for each in kinds if each[0]], len(cells)
        else:
            barred = "|" in line or "│" in line or "┃" in line
            for kind, number, start, end in headings:
                for value, index, first, last in cells:
                    beside = index == number if barred else first < end and last > start
                    if beside and len(cells) == count and _CELLS[kind].fullmatch(value):
                        yield Cell(kind, at + first, at + last)
        label = _kind_of(line.strip(), _LABELS) if len(line) < _LONGEST else ""
        at += len(line) + 1


def _split(line: str) -> Iterator[tuple[str, int, int, int]]:
    """The cells of a line: text, number and columns."""
    pattern = _BARRED if re.search("[|│┃]", line) else _PLAIN
    for number, cell in enumerate(pattern.finditer(line)):
        text = cell[0].strip()
        if text:
            start = cell.start() + cell[0].index(text)
            yield text, number, start, start + len(text)


def _kind_of(text: str, names: tuple[tuple[str, str], ...] = _HEADINGS) -> str:
    lowered = text.lower()
    return next((kind for kind, name in names if re.fullmatch(name, lowered)), "")
