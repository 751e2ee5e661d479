"""Texts of a script that remember where they stand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from ascend_doctor.facts import UNTOLD

# A value that grows beyond this is one that only the shell knows.
MOST_TEXT = 1 << 16
MOST_WORDS = 5000
_BLANK = " \t\n\r"


class Piece(msgspec.Struct, frozen=True):
    """A part of a value, and line and column (from 1) of its first character."""

    text: str
    line: int
    column: int


Value = tuple[Piece, ...]


class Word(msgspec.Struct, frozen=True):
    """A word of a command."""

    text: str
    line: int
    column: int


def text(value: Iterable[Piece]) -> str:
    return "".join(piece.text for piece in value)


def untold(line: int, column: int) -> Value:
    """A value that only the running shell knows."""
    return (Piece(UNTOLD, line, column),)


def kept(value: Value) -> Value:
    """The value, or an untold one where it is too long to keep."""
    if sum(len(piece.text) for piece in value) <= MOST_TEXT and len(value) <= MOST_WORDS:
        return value
    return untold(value[0].line, value[0].column)


def word(value: Value, line: int, column: int) -> Word:
    """The value as one word, as between double quotes."""
    first = value[0] if value else Piece("", line, column)
    return Word(text(value), first.line, first.column)


def words(value: Value) -> Iterator[Word]:
    """The words that an unquoted value falls into; a backslash before a line end is a blank."""
    letters: list[str] = []
    start = (0, 0)
    for piece in value:
        line, column = piece.line, piece.column
        for place, letter in enumerate(piece.text):
            follows = piece.text[place + 1 : place + 2]
            if letter in _BLANK or (letter == "\\" and follows in {"\n", "\r"}):
                if letters:
                    yield Word("".join(letters), *start)
                    letters = []
            else:
                start = start if letters else (line, column)
                letters.append(letter)
            line, column = (line + 1, 1) if letter == "\n" else (line, column + 1)
    if letters:
        yield Word("".join(letters), *start)
