"""Values below what names them: in tables, and alone in the line below a line with the name."""

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ascend_doctor.patterns import defer
from ascend_doctor.redact.meanings import Cell, Meaning, in_column, judge, meaning
from ascend_doctor.redact.values import SECRETS, is_telling
from ascend_doctor.redact.vocabulary import is_strange

_LEAST_COLUMNS, _LONGEST = 2, 500
# A line of these is drawn between rows.
_RULED = frozenset(" -=+|│┃─┼:")
_COLUMNS = (
    (defer("[|│┃]"), defer("[^|│┃]+")),
    (defer("</t[dh]>"), defer("(?<=[dh]>)[^<>]+")),
    (defer(r"\S\t"), defer("[^\t]+")),
    (defer(r"^[^,\s][^,]*(?:,[^,\s][^,]*){2,}$"), defer("[^,]+")),
    (defer(r"^[^;\s][^;]*(?:;[^;\s][^;]*){2,}$"), defer("[^;]+")),
    (defer(""), defer(r"\S+(?: \S+)*")),
)
# Words of capitals head columns, however far apart; a log's prefix may precede them.
_CAPITALS = defer(r"""(?:[ \t]*[%#]?\b[A-Z][A-Z_()%/+-]+){3,}["'}\]]*$""")
_PIECES = defer(r"""[^\s"'+}\]]+""")
# What may surround a name or a value that is alone in its line.
_ALONE = " \t\r-=#*?>❯:：|\"'`.“”"  # noqa: RUF001
_STRANGE = defer(r"(?=\S*\d)(?=\S*[A-Za-z])\S{6,}|\d{12,}")
_MOST_WORDS, _LONGEST_NAME = 3, 40
_DIGITS = str.maketrans("123456789", "000000000")
# A row with a sentence describes; it holds no value.
_PROSE = defer(r"(?:[^\s|]+ ){5}|\w\w[.。]\s*(?:\||$)")
_FRAME = defer(r"(?:^|\s)[|│┃](?:\s|$)|</t[dh]>")
_BLOCK = defer(r"\s*[|>]\d?[+-]?\s*$")  # a block of YAML begins
_LETTERS = defer(r"[^\W\d_]+")


class _Heading(NamedTuple):
    """What columns hold, by number; None is what the cell before names."""

    columns: dict[int, Meaning | None]
    cell: re.Pattern[str]
    prefix: int
    spans: tuple[tuple[int, int], ...]

    def cells_below(self, line: str) -> Iterator[Cell]:
        cells = _split(line, self.cell)
        if _PROSE.search(line):
            return
        for number, column in self.columns.items():
            cell = self._cell(cells, number)
            if cell and (sense := column or meaning(cells[number - 1][0].strip())):
                value = cell[0].strip().strip("\"'`") or " "
                if len(value) in {judge(sense, value), judge(in_column(sense), value)}:
                    start = cell.start() + cell[0].index(value)
                    yield Cell(sense.kind, start, start + len(value))

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


def find_framed_cells(text: str) -> Iterator[Cell]:
    """The same in tables whose lines stand in cells of another, or in quotes."""
    run: list[tuple[int, str]] = []
    opened = False
    for start, line in _lines(text):
        # Both sides of a quote that does not end, or did not begin, in its line.
        odd = [quote for quote in "'\"" if line.count(quote) % 2]
        quotes = [*re.finditer(f"[^{odd[0]}]+", line)] if odd else []
        cells = _split(line, _columns_of(line)) if _FRAME.search(line) else quotes
        longest = max(cells, key=lambda cell: len(cell[0]), default=None)
        piece = (start + longest.start(), longest[0].rstrip()) if longest else (start, line)
        begins = longest and piece[1].split()[1:] and _is_telling_line(piece[1])
        if (run and (longest or opened)) or begins:
            run.append(piece)
        else:
            yield from _find_cells(run)
            run = []
        opened = opened != bool(quotes)
    yield from _find_cells(run)


def find_cells(text: str) -> Iterator[Cell]:
    """The values below such headings, in the order of the text."""
    yield from _find_cells(_lines(text))


def _find_cells(lines: Iterable[tuple[int, str]]) -> Iterator[Cell]:
    headings: tuple[_Heading, ...] = ()
    label, before, ruled, block = "", "", False, None
    for start, line in lines:
        if block and _indent(line) > block[1]:
            if judge(block[0], line.strip()):
                yield Cell(block[0].kind, start + _indent(line), start + len(line))
            continue
        block = _block_of(line)
        if _is_ruled(line):
            ruled = ruled or bool(line.strip())
            continue
        if label and _same(line.rstrip(), label[: len(line.rstrip())]):
            continue
        alone = _find_alone(label, line, ruled=ruled) if label else None
        below = ([*heading.cells_below(line)] for heading in headings)
        for kind, first, last in [alone] if alone else next(filter(None, below), []):
            yield Cell(kind, start + first, start + last)
        telling = _is_telling_line(line)
        if headings and _count(line) < _LEAST_COLUMNS:
            headings = ()
        elif telling and _count(line) != _count(before):  # a first line of its shape
            headings = _headings_of(line) or headings
        label, before, ruled = line if telling else "", line, False


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _block_of(line: str) -> tuple[Meaning, int] | None:
    """What a block of YAML that begins in a line holds, and how deep its name stands."""
    name, sign, begin = line.partition(":")
    sense = meaning(name.strip(_ALONE)) if sign and begin and _BLOCK.match(begin) else None
    return (sense, _indent(line)) if sense and sense.kind in SECRETS else None


def _is_ruled(line: str) -> bool:
    """Drawn as a whole, or behind what precedes each line of a log."""
    before = line.rstrip(" |+=-")
    drawn = line[len(before) :]
    apart = before.endswith(("]", ":", ">")) or drawn.startswith((" ", "|"))
    ruled = apart and ("---" in drawn or "===" in drawn)
    return ruled or not set(line) - _RULED or _BLOCK.match(line) is not None


def _count(line: str) -> int:
    return len(_split(line, _PIECES if _CAPITALS.search(line) else _columns_of(line)))


def _find_alone(label: str, line: str, *, ruled: bool) -> Cell | None:
    """The lone value in a line below its name, of several words or the last one."""
    whole, last = line.strip(_ALONE), line.rpartition(" ")[2].strip(_ALONE)
    for value in (whole, last) if " " in whole and len(whole) < _LONGEST_NAME * 2 else (last,):
        if not value or {*value} & {*",;|\t"}:
            continue
        start = line.rindex(value)
        prefix = line[:start].rstrip(_ALONE)
        below = _same(prefix, label[: len(prefix)]) and not _same(label, line)
        name = label[len(prefix) :].strip()
        announced = ruled or name[-1:] in ":：?]"  # noqa: RUF001
        sense = below and _sense_of(name.strip(_ALONE + "[]"), sentence=name[-1:] in ":：")  # noqa: RUF001
        if not sense or (" " in value and sense.kind in SECRETS):
            continue
        exact = sense.kind not in {"user", "host"} | SECRETS - {"code"}
        if announced or exact or _STRANGE.fullmatch(value) or is_strange(value):
            size = judge(sense, value, beside=sense.kind in {"user", "host"} and not sense.sure)
            if size == len(value):
                return Cell(sense.kind, start, start + size)
    return None


def _is_telling_line(line: str) -> bool:
    words = {*_LETTERS.findall(line.lower())}
    return bool(words & {"value", "值", "name"}) or any(map(is_telling, words))


def _same(text: str, other: str) -> bool:
    return text.translate(_DIGITS) == other.translate(_DIGITS)


def _sense_of(name: str, *, sentence: bool) -> Meaning | None:
    """What a line names: as a whole, at its end, or in an announcing sentence."""
    name = name.rpartition(" --")[2]
    words = re.sub(r"(?:\((\w+)\)|\b(?:is|was|here|below))$", "", name).split()
    if len(words) <= _MOST_WORDS and len(name) <= _LONGEST_NAME:
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
        columns = {n: kind[0] for n, each in enumerate(cells) if (kind := _kind_of(each[0], line))}
        if columns and len(cells) > 1:
            words = run if cell is _PIECES else None
            prefix = sum(each.end() <= words.start() for each in cells) if words else 0
            headings.append(_Heading(columns, cell, prefix, tuple(c.span() for c in cells)))
    return tuple(headings)


def _kind_of(heading: str, line: str) -> tuple[Meaning | None] | None:
    name = heading.strip(" \t\"'`").partition("(")[0]
    if not re.fullmatch(r"[\w .-]{1,40}", name):
        return None
    if name.lower() in {"value", "值"} and not line.startswith(heading):
        return (None,)
    if name == "NAME":
        name = (
            "host" if re.search("ROLES|INTERNAL-IP", line) else "pod" if "READY" in line else name
        )
    sense = meaning(name)
    return (sense,) if sense else None
