"""Takes apart tracebacks of ranks whose rows stand between each other."""

import functools
from collections import Counter
from itertools import pairwise

from ascend_doctor.patterns import compile_beside

Lane = tuple[str, ...]
# What may be above each kind of row.
_IS = compile_beside(__file__)
_ABOVE = {
    "head": "link",
    "frame": "head quoted frame source",
    "source": "frame source",
    "last": "frame source",
    "quoted": "last more",
    "link": "last more blank",
    "blank": "last more",
    "more": "last more",
}


def is_mixed(rows: list[str]) -> bool:
    """Whether a traceback begins amid another."""
    kinds = map(_kind, rows)
    return any(below == "head" and above in "head frame source" for above, below in pairwise(kinds))


def take_own(before: list[str], last: str, after: list[str]) -> tuple[list[str], list[str]]:
    """The rows before and after ``last`` of its process; as given without its traceback."""
    lanes: Counter[Lane] = Counter()  # processes with the same rows count as one lane
    lane, own, at = Lane(), Lane(), 0
    for number, row in enumerate((*before, last, *after)):
        kind = _kind(row)
        follows = _ABOVE[kind].split()
        fitting = [each for each in lanes if _kind(each[-1]) in follows]
        if kind in ("more", "blank"):
            fitting = [lane] if lane in fitting else []
        if not fitting and kind != "head":
            continue
        taker = max(fitting, key=lambda each: _fit(row, each, lanes), default=())
        lane = (*taker, row)
        if number == len(before):
            own, at = lane, len(taker)
        elif taker and taker == own:
            own = lane
        lanes = lanes + Counter([lane]) - Counter([taker])
    return ([*own[:at]], [*own[at + 1 :]]) if own else (before, after)


def _fit(row: str, lane: Lane, lanes: Counter[Lane]) -> tuple[bool, bool, int]:
    """How well a row follows: as in another process, as what the row above calls, by length."""
    size = len(lane)
    repeats = any(other[size : size + 1] == (row,) and other[:size] == lane for other in lanes)
    above = next((text for text in reversed(lane) if text.strip(" ~^")), "")
    match = _IS["frame"].match(row) or _IS["last"].match(row)
    name = (match and match["name"]) or "\n"
    imports = "import" in above and name in ("<module>", "ImportError", "ModuleNotFoundError")
    return repeats, imports or name in above or (name == "<module>" and size == 1), size


@functools.lru_cache(4096)
def _kind(row: str) -> str:
    return next((kind for kind, shape in _IS.items() if shape.match(row)), "more")
