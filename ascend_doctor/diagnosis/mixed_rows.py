"""Takes apart tracebacks of several ranks whose rows stand between each other."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from ascend_doctor.patterns import compile_beside

# Kinds of a row, and what may be above each in one traceback.
_IS = compile_beside(__file__)
_ABOVE = {
    "link": ("last", "more"),
    "quoted": ("last", "more"),
    "frame": ("head", "quoted", "frame", "source"),
    "source": ("frame", "source"),
    "last": ("frame", "source"),
}
_MAX_LANES = 64


@dataclass
class _Lane:
    """The rows of one process, and the kind of the last."""

    rows: list[str] = field(default_factory=list)
    kind: str = ""
    own: int = -1  # the row that is asked for

    def rank(self, row: str, lanes: Sequence["_Lane"]) -> tuple[bool, bool, int]:
        """How well a row follows: as in another process, by the called function, by length."""
        size = len(self.rows)
        repeats = any(
            len(lane.rows) > size and lane.rows[size] == row and lane.rows[:size] == self.rows
            for lane in lanes
        )
        above = next((text for text in reversed(self.rows) if not _IS["marks"].match(text)), "")
        match = _IS["frame"].match(row) or _IS["last"].match(row)
        name = (match and match["name"]) or "\n"
        begins = name == "<module>" and self.kind == "head"
        imports = "import" in above and name in ("<module>", "ImportError", "ModuleNotFoundError")
        calls = begins or imports or name in above
        return repeats, calls, size


def is_mixed(rows: Sequence[str]) -> bool:
    """Whether a traceback begins amid another."""
    kinds = [_kind(row) for row in rows]
    return any(
        below == "head" and above in ("head", "frame", "source")
        for above, below in itertools.pairwise(kinds)
    )


def take_own(before: list[str], last: str, after: list[str]) -> tuple[list[str], list[str]]:
    """The rows before and after ``last`` of its process; as given without its traceback."""
    lanes: list[_Lane] = []
    taker: _Lane | None = None
    for number, row in enumerate((*before, last, *after)):
        kind = _kind(row)
        if kind in ("blank", "more"):
            fitting = [taker] if taker and taker.kind in ("last", "more", "link") else []
        elif kind == "head":
            fitting = [lane for lane in lanes if lane.kind == "link"][:1]
            if not fitting and len(lanes) < _MAX_LANES:
                lanes.append(_Lane())
                fitting = lanes[-1:]
        else:
            fitting = [lane for lane in lanes if lane.kind in _ABOVE[kind]]
        if not fitting:
            continue
        taker = max(fitting, key=lambda lane: lane.rank(row, lanes))
        if number == len(before):
            taker.own = len(taker.rows)
        taker.rows.append(row)
        taker.kind = taker.kind if kind == "blank" else kind
    own = next((lane for lane in lanes if lane.own >= 0), None)
    return (own.rows[: own.own], own.rows[own.own + 1 :]) if own else (before, after)


def _kind(row: str) -> str:
    if not row.strip():
        return "blank"
    return next(
        (
            kind
            for kind in ("head", "quoted", "link", "frame", "source", "last")
            if _IS[kind].match(row)
        ),
        "more",
    )
