"""The four shapes of text that the vendor tools and files use. Nothing here ever raises."""

import re

from ascend_doctor.patterns import patterns_of

Pairs = tuple[tuple[str, str], ...]

_DEVICE, _COLUMNS, _RULE = patterns_of(__file__)


def parse_assignments(text: str) -> dict[str, str]:
    """``key=value`` lines without surrounding double quotes. Unlike values of a key are joined."""
    assignments: dict[str, str] = {}
    for line in text.splitlines():
        key, sign, value = line.partition("=")
        name, text = key.strip(), value.strip().strip('"')
        if sign and name and not name.startswith("#"):
            known = assignments.get(name, text)
            assignments[name] = text if known == text else f"{known} and {text}"
    return assignments


def parse_pairs(text: str) -> Pairs:
    """``key : value`` lines without ``[devid N]``; an empty key continues the value above."""
    pairs: list[tuple[str, str]] = []
    for line in text.splitlines():
        left, colon, value = line.partition(":")
        key = _DEVICE.sub("", left.strip(), count=1).strip()
        if colon and key:
            pairs.append((key, value.strip()))
        elif colon and pairs:
            pairs[-1] = (pairs[-1][0], f"{pairs[-1][1]}\n{value.strip()}")
    return tuple(pairs)


def first(pairs: Pairs, *keys: str) -> str | None:
    """The value of the first pair with one of these keys; None for "NA" or "-"."""
    value = next((value for key, value in pairs if key in keys), None)
    return None if value in (None, "", "NA", "-") else value


def parse_columns(text: str) -> tuple[tuple[str, ...], ...]:
    """Rows of a table without a frame: two or more blanks or a tab separate cells."""
    rows = (tuple(_COLUMNS.split(line.strip())) for line in text.splitlines())
    return tuple(row for row in rows if any(row))


def parse_frames(text: str) -> tuple[tuple[tuple[str, ...], ...], ...]:
    """Header and rows of ``+---+`` tables; two rules in a row separate two tables.

    A row with an empty first cell (``dev_info`` of hccn_tool) takes empty cells from that above.
    """
    tables: list[list[tuple[str, ...]]] = []
    ruled_twice = False
    after_rule = False
    for line in text.splitlines():
        stripped = line.strip()
        if _RULE.match(stripped):
            ruled_twice = after_rule
            after_rule = True
        elif stripped.startswith("|"):
            cells = tuple(cell.strip() for cell in stripped.strip("|").split("|"))
            if ruled_twice or not tables:
                tables.append([cells])
            else:
                tables[-1].append(_fill(cells, tables[-1]))
            ruled_twice = after_rule = False
    return tuple(tuple(table) for table in tables)


def _fill(cells: tuple[str, ...], rows: list[tuple[str, ...]]) -> tuple[str, ...]:
    above = rows[-1]
    if cells[0] or len(rows) == 1 or len(above) != len(cells):
        return cells
    return tuple(cell or old for cell, old in zip(cells, above, strict=True))


def whole(text: str | None) -> int | None:
    """A decimal integer, None for anything else ("NA", "-", "")."""
    return int(text) if text and re.fullmatch(r"-?[0-9]{1,18}", text) else None
