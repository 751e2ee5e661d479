"""A line of a file with a caret under a column, as wide as the page allows."""

from ascend_doctor.findings import Excerpt
from ascend_doctor.render.columns import width as columns
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
        rows.append(f"{'':>6} {bar} " + " " * columns(before) + "^")
    return rows


def _expand(text: str) -> str:
    return one_line(text.expandtabs(_TAB))


def _fit(before: str, after: str, room: int) -> tuple[str, str]:
    if columns(before + after) <= room:
        return before, after
    # Text after the column matters as much as that before it.
    half = max(room // 2, room - columns(after))
    if columns(before) > half:
        while columns(before) > half - len(_CUT):
            before = before[1:]
        before = _CUT + before
    left = room - columns(before)
    if columns(after) > left:
        while columns(after) > left - len(_CUT):
            after = after[:-1]
        after += _CUT
    return before, after
