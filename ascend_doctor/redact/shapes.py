"""What secrets look like. docs/redaction.md lists the same for people.

A shape is tried only where one of its triggers stands in the text, and compiled when it is first
tried: most runs meet three or four of them.
"""

import functools
import re
from collections.abc import Iterator
from typing import NamedTuple

from ascend_doctor.patterns import defer
from ascend_doctor.redact.vocabulary import fill, read_rows

BETWEEN = "\x1f"  # words of a list; white space for a pattern, and it stands in no word
_ZEROS = str.maketrans("123456789", "0" * 9)
_CLASS_OR_BLANK = defer(r"\[(?:\\.|[^\]\\])*\]| ")


class Shape(NamedTuple):
    """``pattern`` hides its groups, or all of the match without groups.

    ``triggers`` are folded (``fold``); a folded text with the shape holds one of them.
    """

    kind: str
    triggers: tuple[str, ...]
    pattern: str

    def compile_shape(self) -> re.Pattern[str]:
        return compile_pattern(self.pattern)


def fold(text: str) -> str:
    """A text as triggers are: in small letters, with 0 for each digit."""
    return text.lower().replace(BETWEEN, " ").translate(_ZEROS)


@functools.cache
def compile_pattern(pattern: str) -> re.Pattern[str]:
    # A blank in a line separates two words of a list.
    spaced = _CLASS_OR_BLANK.sub(
        lambda match: match[0].replace(" ", f" {BETWEEN}") if match[0] != " " else f"[ {BETWEEN}]",
        pattern,
    )
    return defer(spaced, re.IGNORECASE | re.MULTILINE)


def read_shapes(table: str) -> Iterator[Shape]:
    """Shapes of a table: kind, triggers in backticks, pattern."""
    for row in read_rows(table):
        kind, *triggers, pattern = re.split(" ?`(.*?)` ", row)
        yield Shape(kind, tuple(map(fold, triggers[::2])), fill(pattern))


SHAPES = tuple(read_shapes("secrets.txt"))
TOKENS = tuple(read_shapes("tokens.txt"))


class ShapeIndex:
    def __init__(self, shapes: tuple[Shape, ...]) -> None:
        self._shapes = shapes
        self._triggers: dict[str, int] = {}
        for at, shape in enumerate(shapes):
            for word in shape.triggers:
                self._triggers[word] = self._triggers.get(word, 0) | 1 << at
        self._subsets: dict[int, tuple[Shape, ...]] = {}

    def within(self, folded: str) -> tuple[Shape, ...]:
        """The shapes that may be in a folded text."""
        bits = 0
        for word, shapes in self._triggers.items():
            if word in folded:
                bits |= shapes
        subset = self._subsets.get(bits)
        if subset is None:
            subset = tuple(shape for at, shape in enumerate(self._shapes) if bits >> at & 1)
            self._subsets[bits] = subset
        return subset
