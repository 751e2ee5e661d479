"""Colours and invisible characters: put aside while a text is matched, and put back."""

import itertools
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence

from ascend_doctor.patterns import defer

# Terminal escape sequences, controls, and characters without width. Line ends, tabs and the
# separator of words stay.
_UNSEEN = defer(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[@-Z\\^_=>])"
    "|[\x00-\x08\x0e-\x1a\x7f\xad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]+"
)
Replace = Callable[[re.Match[str]], str]
Places = Sequence[tuple[int, int]]
EVERYWHERE: Places = ((0, sys.maxsize),)
_PRINTED = defer("[\n\x1f -~]*")


class VisibleText:
    """A text without invisible parts, which knows their places."""

    def __init__(self, text: str) -> None:
        self._marks: list[tuple[int, str]] = []  # a place, and the invisible text before it
        if _PRINTED.fullmatch(text):
            self.text = text
            return
        removed = 0
        for match in _UNSEEN.finditer(text):
            self._marks.append((match.start() - removed, match[0]))
            removed += len(match[0])
        self.text = _UNSEEN.sub("", text) if removed else text

    def substitute(
        self, pattern: re.Pattern[str], replace: Replace, places: Places = EVERYWHERE
    ) -> None:
        """Replace matches in some places of the text."""
        if not self._marks and places is EVERYWHERE:
            self.text = pattern.sub(replace, self.text)
            return
        matches = (match for span in places for match in pattern.finditer(self.text, *span))
        self.replace((match.start(), match.end(), replace(match)) for match in list(matches))

    def replace(self, changes: Iterable[tuple[int, int, str]]) -> None:
        """New texts between two places, in their order."""
        edits, parts, at = [], [], 0
        for start, end, new in changes:
            old = self.text[start:end]
            if new != old:
                both = zip(old, new, strict=False)
                same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], both))
                edits.append((start + same, end, len(new) - same))
                parts += [self.text[at:start], new]
                at = end
        if edits:
            self.text = "".join((*parts, self.text[at:]))
            self._marks = list(_move(self._marks, edits))

    def whole(self) -> str:
        """The text with what cannot be seen."""
        parts, begin = [], 0
        for at, text in self._marks:
            parts += [self.text[begin:at], text]
            begin = at
        return "".join((*parts, self.text[begin:]))


def _move(
    marks: Iterable[tuple[int, str]], edits: list[tuple[int, int, int]]
) -> Iterator[tuple[int, str]]:
    grown = index = 0
    for at, text in marks:
        while index < len(edits) and edits[index][1] <= at:
            begin, end, size = edits[index]
            grown += size - (end - begin)
            index += 1
        inside = index < len(edits) and edits[index][0] < at
        yield (edits[index][0] + edits[index][2] if inside else at) + grown, text
