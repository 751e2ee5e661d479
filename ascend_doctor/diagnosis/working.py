"""What shows that a run gets on or ended well: a log without errors may also be that of a hang.

The last lines decide. A step, a metric or a rate counts anywhere in them, a word such as
"completed" only close to the end.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from ascend_doctor.patterns import read_patterns

# Lines from the end to search for steps and for words, and how far into each.
_STEPS, _WORDS = 40, 5
_REACH = 4096

RUN_END = read_patterns(Path(__file__).with_name("run_end.txt"))
_COUNTERS = tuple(re.compile(shape, re.IGNORECASE) for shape in RUN_END["counter"])
_STEP, _WORD, _WRONG, _NOT_YET = (RUN_END[name][0] for name in ("step", "word", "wrong", "notyet"))
_GETS_ON, _ENDS_WELL, _SPOILS_STEP, _SPOILS_WORD = (
    re.compile(shape.encode(), re.IGNORECASE)
    for shape in (_STEP, _WORD, _WRONG, f"{_WRONG}|{_NOT_YET}")
)
_LINE = re.compile(rb"[^\r\n]*[^\s][^\r\n]*")


def find_work(tail: bytes) -> int | None:
    """Start of the last line that shows work in the end of a log, else None."""
    rows = list(_LINE.finditer(tail))
    for shape, spoils, reach in (
        (_GETS_ON, _SPOILS_STEP, _STEPS),
        (_ENDS_WELL, _SPOILS_WORD, _WORDS),
    ):
        for row in reversed(rows[-reach:]):
            text = row[0][:_REACH]
            if shape.search(text) and not spoils.search(text):
                return row.start()
    return None


def counts_on(rows: Iterable[tuple[int, str]]) -> list[tuple[int, str]]:
    """The lines in which a training counts further than in the one before."""
    steps: list[tuple[int, str]] = []
    last: tuple[float, ...] = ()
    for start, text in rows:
        raw = text.encode()
        if not _GETS_ON.search(raw) or _SPOILS_STEP.search(raw):
            continue
        matches = (counter.search(text) for counter in _COUNTERS)
        count = tuple(float(match[1]) if match else 0.0 for match in matches)
        if any(count) and count > last:
            steps.append((start, text))
            last = count
    return steps
