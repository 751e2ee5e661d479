"""Many patterns searched for by Python's regular expressions, where Hyperscan has no wheel.

A pattern is tried only where one of its words is: a text is searched for words much faster than for
patterns. What it costs grows with the number of lines that have such words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ascend_doctor.diagnosis.pattern_words import find_words, split_alternatives
from ascend_doctor.errors import DataError

# The kind of a pattern of which every match counts, also where others are told once.
CODES = "codes"
# As far as a line is looked at around a match; it bounds what a pattern can backtrack over.
_REACH = 4096
# What Hyperscan refuses as well, so that a matrix of a site is good with both.
_REFUSED = re.compile(r"(?<!\\)(?:\\\\)*(?:\(\?<?[=!]|\(\?P=|\\[1-9])")


class _Numbered(NamedTuple):
    """A pattern, or an alternative of one."""

    number: int
    pattern: re.Pattern[bytes]


class Searches:
    """Patterns by the words of which a match has one. Raises DataError for a pattern that is none.

    ``names`` are (kind, id) by pattern. Without ``block`` a pattern is told once for a text, or
    once by its word, but for codes.
    """

    def __init__(
        self, texts: Sequence[str], names: Sequence[tuple[str, str]], *, block: bool
    ) -> None:
        self._by_word: dict[bytes, list[_Numbered]] = {}
        self._wordless: list[_Numbered] = []
        self._once = not block
        self._codes = {number for number, (kind, _) in enumerate(names) if kind == CODES}
        for number, (text, (_, name)) in enumerate(zip(texts, names, strict=False)):
            _refuse(text, name)
            self._add(number, text, re.MULTILINE if block else 0)

    def _add(self, number: int, text: str, flags: int) -> None:
        for alternative in split_alternatives(text):
            pattern = _Numbered(number, re.compile(alternative.encode(), flags))
            words = find_words(alternative)
            for word in words:
                self._by_word.setdefault(word.encode(), []).append(pattern)
            if not words:
                self._wordless.append(pattern)

    def scan(self, text: bytes) -> Iterator[tuple[int, int]]:
        """Patterns by number that match, each with the offset of an end of a match."""
        for number, pattern in self._wordless:
            for match in pattern.finditer(text):
                yield number, match.end()
        # Once for all words: patterns may ignore case, and a folded text is searched by bytes.find.
        lower = text.lower()
        for word, patterns in self._by_word.items():
            if word in lower:
                yield from self._near(text, lower, word, patterns)

    def _near(
        self, text: bytes, lower: bytes, word: bytes, patterns: Sequence[_Numbered]
    ) -> Iterator[tuple[int, int]]:
        """Matches in what stands around a word."""
        position = lower.find(word)
        while position >= 0:
            start, stop = (0, len(text)) if self._once else _bounds(text, position)
            following = stop
            if stop - start > 2 * _REACH:
                start, stop = max(start, position - _REACH), min(stop, position + _REACH)
                following = min(following, position + _REACH // 2)
            for number, pattern in patterns:
                for match in pattern.finditer(text, start, stop):
                    yield number, match.end()
                    if self._once and number not in self._codes:
                        break
            position = lower.find(word, max(following, position + 1))


def _refuse(text: str, name: str) -> None:
    """Raises DataError for what is no pattern, would match everywhere, or looks around."""
    try:
        empty = re.compile(text.encode()).match(b"")
    except (re.error, OverflowError) as error:
        message = f"failure {name}: the pattern {text!r} cannot be used: {error}"
        raise DataError(message) from error
    if empty or _REFUSED.search(text):
        why = "it matches the empty text" if empty else "it looks around or back"
        raise DataError(f"failure {name}: the pattern {text!r} cannot be used: {why}")


def _bounds(text: bytes, position: int) -> tuple[int, int]:
    """The line that holds a position."""
    stop = text.find(b"\n", position)
    return text.rfind(b"\n", 0, position) + 1, len(text) if stop < 0 else stop
