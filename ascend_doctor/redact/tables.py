"""Values below what names them: in tables, and alone in the line below a line with the name."""

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ascend_doctor.patterns import defer
from ascend_doctor.redact.meanings import STEMS, Cell, Meaning, meaning
from ascend_doctor.redact.shapes import compile_pattern

# Alone, these head a column.
_HEADINGS = {"user": "user", "login": "user", "owner": "user", "host": "host", "node": "host"}
_CELLS = {
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
    (defer("</t[dh]>"), defer("(?<=[dh]>)[^<>]+")),
    (defer("\t"), defer("[^\t]+")),
    (defer(r"^[^,\s][^,]*(?:,[^,\s][^,]*){2,}$"), defer("[^,]+")),
    (defer(r"^[^;\s][^;]*(?:;[^;\s][^;]*){2,}$"), defer("[^;]+")),
    (defer(""), defer(r"\S+(?: \S+)*")),
)
# Words of capitals head columns, however far apart; a log's prefix may precede them.
_CAPITALS = defer(r"""(?:[ \t]*[%#]?\b[A-Z][A-Z_()%/-]+){3,}["'}\]]*$""")
_PIECES = defer(r"""[^\s"'+}\]]+""")
# What may surround a name or a value that is alone in its line.
_ALONE = " \t\r-=#*?>❯:：|\"'`.“”"  # noqa: RUF001
_STRANGE = defer(r"(?=\S*\d)(?=\S*[A-Za-z])\S{6,}|\d{12,}")
_MOST_WORDS = 3  # of a name
_DIGITS = str.maketrans("123456789", "000000000")
# A row with a sentence describes; it holds no value.
_PROSE = defer(r"(?:[^\s|]+ ){5}|\w\w[.。]\s*(?:\||$)")
# A line that may be a heading or a label.
_TELLING = defer(rf"{STEMS.pattern}|value|值")


class _Heading(NamedTuple):
    """Kinds and shapes of columns that are hidden, by number; "" is what the cell before names."""

    columns: dict[int, tuple[str, re.Pattern[str] | None]]
    cell: re.Pattern[str]
    prefix: int
    spans: tuple[tuple[int, int], ...]

    def cells_below(self, line: str) -> Iterator[Cell]:
        cells = _split(line, self.cell)
        if _PROSE.search(line):
            return
        for number, (kind, pattern) in self.columns.items():
            cell = self._cell(cells, number)
            sense = meaning(cells[number - 1][0].strip()) if cell and pattern is None else None
            shape = compile_pattern(sense.value) if sense else pattern
            value = cell[0].strip() if cell else ""
            if cell and shape and shape.fullmatch(value):
                start = cell.start() + cell[0].index(value)
                yield Cell(sense.kind if sense else kind, start, start + len(value))

    def _cell(self, cells: list[re.Match[str]], number: int) -> re.Match[str] | None:
        """By number, else by the heading's edge."""
        size = len(self.spans)
        skipped = {size: 0, size - self.prefix: self.prefix}.get(len(cells))
        if skipped is not None:
            return cells[number - skipped] if skipped <= number else None
        first, last = self.spans[number]
        starts, ends = ({each.span()[edge] for each in cells} for edge in (0, 1))
        if all(begin in starts or end in ends for begin, end in self.spans[:-1]):
            return next((c for c in cells if c.start() == first or c.end() == last), None)
        return None


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Each line with its place; of a text in quotes, what the quotes hold."""
    at, before = 0, ""
    lines = re.split(r"(\n|\\n)", text)
    for whole, end in itertools.zip_longest(lines[::2], lines[1::2], fillvalue=""):
        line, start = whole if len(whole) < _LONGEST else "", at
        if before != end == "\\n":
            start += line.rfind('"') + 1
            line = line[line.rfind('"') + 1 :]
        elif end != before == "\\n":
            line = re.split(r"\\*[\"']", line)[0]
        yield start, line
        at, before = at + len(whole) + len(end), end


def find_cells(text: str) -> Iterator[Cell]:
    """The values below such headings, in the order of the text."""
    headings: tuple[_Heading, ...] = ()
    label, before, ruled = "", "", False
    for start, line in _lines(text):
        if _is_ruled(line):
            ruled = ruled or bool(line.strip())
            continue
        if label and _same(line.rstrip(), label[: len(line.rstrip())]):
            continue
        for kind, first, last in _below(line, headings, label, ruled=ruled):
            yield Cell(kind, start + first, start + last)
        telling = _TELLING.search(line.lower())
        if headings and _count(line) < _LEAST_COLUMNS:
            headings = ()
        elif telling and _count(line) != _count(before):  # a first line of its shape
            headings = _headings_of(line) or headings
        label, before, ruled = line if telling else "", line, False


def _is_ruled(line: str) -> bool:
    """Drawn as a whole, or behind what precedes each line of a log."""
    before = line.rstrip(" |+=-")
    drawn = line[len(before) :]
    apart = before.endswith(("]", ":", ">")) or drawn.startswith((" ", "|"))
    return not set(line) - _RULED or (apart and ("---" in drawn or "===" in drawn))


def _count(line: str) -> int:
    return len(_split(line, _PIECES if _CAPITALS.search(line) else _columns_of(line)))


def _below(line: str, headings: Iterable[_Heading], label: str, *, ruled: bool) -> list[Cell]:
    if label and (cell := _find_alone(label, line, ruled=ruled)):
        return [cell]
    return next(filter(None, ([*heading.cells_below(line)] for heading in headings)), [])


def _find_alone(label: str, line: str, *, ruled: bool) -> Cell | None:
    """The lone value in a line below its name."""
    value = line.rpartition(" ")[2].strip(_ALONE)
    start = line.rindex(value)
    prefix = line[:start].rstrip(_ALONE)
    if not value or not _same(prefix, label[: len(prefix)]) or _same(label, line):
        return None
    name = label[len(prefix) :].strip()
    sense = _sense_of(name.strip(_ALONE + "[]"), sentence=name[-1:] in ":：")  # noqa: RUF001
    announced = ruled or name[-1:] in ":：?]"  # noqa: RUF001
    if sense and (announced or _STRANGE.fullmatch(value)):
        match = compile_pattern(sense.value).fullmatch(value)
        if match and (sense.kind in _HEADINGS or _CELLS["password"].fullmatch(value)):
            return Cell(sense.kind, start, start + len(value))
    return None


def _same(text: str, other: str) -> bool:
    return text.translate(_DIGITS) == other.translate(_DIGITS)


def _sense_of(name: str, *, sentence: bool) -> Meaning | None:
    """What a line names: as a whole, at its end, or in an announcing sentence."""
    words = re.sub(r"(?:\((\w+)\)|\b(?:is|was|here|below))$", "", name).split()
    if len(words) <= _MOST_WORDS:
        for first in range(len(words)):
            if sense := meaning(" ".join(words[first:])):
                return sense
    senses = map(meaning, words[:12]) if sentence else ()
    return next((sense for sense in senses if sense and sense.kind == "password"), None)


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
            headings.append(_Heading(columns, cell, prefix, tuple(c.span() for c in cells)))
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
