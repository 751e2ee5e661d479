"""A line of a file with a caret under a column, as wide as the page allows."""

import unicodedata

from ascend_doctor.findings import Excerpt
from ascend_doctor.render.plain import one_line

_TAB = 4
_CUT = "..."
# On a very narrow page, to leave something beside the caret.
_LEAST = 20
_MOST = 4000


def draw(excerpt: Excerpt, number: int, width: int, *, ascii_only: bool) -> list[str]:
    """Two rows: the numbered line, and a caret; one if the column is unknown.

    Tabs become blanks, control characters escapes; wide characters take two columns.
    """
    bar = "|" if ascii_only else "\u2502"
    head = f"{number:>6} {bar} "
    room = max(width - len(head), _LEAST)
    line = excerpt.line[:_MOST].rstrip()
    before = _expand(line[: max(excerpt.column - 1, 0)])
    after = _expand(line[max(excerpt.column - 1, 0) :])
    before, after = before.lstrip(), after if before.strip() else after.lstrip()
    before, after = _fit(before, after, room)
    rows = [head + before + after]
    if 0 < excerpt.column <= len(line) + 1:
        rows.append(f"{'':>6} {bar} " + " " * _columns(before) + "^")
    return rows


def _expand(text: str) -> str:
    return one_line(text.expandtabs(_TAB))


def _fit(before: str, after: str, room: int) -> tuple[str, str]:
    if _columns(before + after) <= room:
        return before, after
    # Text after the column matters as much as that before it.
    half = max(room // 2, room - _columns(after))
    if _columns(before) > half:
        while _columns(before) > half - len(_CUT):
            before = before[1:]
        before = _CUT + before
    left = room - _columns(before)
    if _columns(after) > left:
        while _columns(after) > left - len(_CUT):
            after = after[:-1]
        after += _CUT
    return before, after


def _columns(text: str) -> int:
    return sum(
        0 if unicodedata.combining(letter) else 1 + (unicodedata.east_asian_width(letter) in "WF")
        for letter in text
    )
