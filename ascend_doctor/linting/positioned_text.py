"""Texts of a script that remember where they stand."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from ascend_doctor.facts import UNTOLD
from ascend_doctor.findings import Place

# A longer value counts as one that only the shell knows.
MOST_TEXT = 1 << 16
MOST_WORDS = 5000
_BLANK = " \t\n\r"


class Piece(msgspec.Struct, frozen=True):
    """A part of a value, and line and column (from 1) of its first character.

    ``source`` is the expression that only the shell knows, if ``text`` is UNTOLD; ``file`` is
    the sourced file of the part, "" for the script itself.
    """

    text: str
    line: int
    column: int
    source: str = ""
    file: str = ""


Value = tuple[Piece, ...]


class Word(msgspec.Struct, frozen=True):
    """A word of a command. ``unresolved`` are its parts that only the running shell knows.

    ``many``: unquoted, so the shell may make several words of it, or none. ``last`` is its last
    part if that is elsewhere: the value of `key=$NAME`, at its assignment. ``parts`` are all of a
    word between quotes.
    """

    text: str
    line: int
    column: int
    unresolved: tuple[Piece, ...] = ()
    file: str = ""
    many: bool = False
    last: Piece | None = None
    parts: Value = ()


def locate(at: Any, file: str) -> Place:
    """The place of a piece, a word or a scalar, in its own file or this one."""
    return Place(file=getattr(at, "file", "") or file, line=at.line, column=at.column)


def text(value: Iterable[Piece]) -> str:
    return "".join(piece.text for piece in value)


def untold(line: int, column: int, source: str = "", file: str = "") -> Value:
    return (Piece(UNTOLD, line, column, source, file),)


def unknown_pieces(value: Iterable[Piece]) -> tuple[Piece, ...]:
    return tuple(piece for piece in value if UNTOLD in piece.text)


def limit_length(value: Value) -> Value:
    if sum(len(piece.text) for piece in value) <= MOST_TEXT and len(value) <= MOST_WORDS:
        return value
    first = value[0]
    return untold(first.line, first.column, "a value that is too long", first.file)


def word(value: Value, line: int, column: int) -> Word:
    """The value as one word, as between double quotes."""
    first = value[0] if value else Piece("", line, column)
    return Word(
        text(value),
        first.line,
        first.column,
        unknown_pieces(value),
        first.file,
        last=_last_of(value),
        parts=tuple(value),
    )


def _last_of(parts: Sequence[Piece]) -> Piece | None:
    filled = [part for part in parts if part.text]
    return filled[-1] if len(filled) > 1 else None


def split_value(value: Value, pattern: re.Pattern[str]) -> Iterator[Value]:
    """The value between the matches of a pattern."""
    whole, start = text(value), 0
    for match in (*pattern.finditer(whole), None):
        yield tuple(_cut(value, start, match.start() if match else len(whole)))
        start = match.end() if match else 0


def _cut(value: Value, start: int, end: int) -> Iterator[Piece]:
    for piece in value:
        before, content = piece.text[: max(start, 0)], piece.text[max(start, 0) : max(end, 0)]
        start, end = start - len(piece.text), end - len(piece.text)
        if content:
            lines = before.count("\n")
            column = len(before) - before.rfind("\n") if lines else piece.column + len(before)
            yield msgspec.structs.replace(
                piece, text=content, line=piece.line + lines, column=column
            )


def words(value: Value) -> Iterator[Word]:
    """Words of an unquoted value; a backslash before a line end is a blank."""
    letters: list[str] = []
    parts: list[Piece] = []
    start = (0, 0)
    for piece in value:
        line, column = piece.line, piece.column
        for position, letter in enumerate(piece.text):
            follows = piece.text[position + 1 : position + 2]
            if letter in _BLANK or (letter == "\\" and follows in {"\n", "\r"}):
                if letters:
                    yield _join_word(letters, start, parts)
                    letters, parts = [], []
            else:
                start = start if letters else (line, column)
                letters.append(letter)
                parts = parts if parts and parts[-1] is piece else [*parts, piece]
            line, column = (line + 1, 1) if letter == "\n" else (line, column + 1)
    if letters:
        yield _join_word(letters, start, parts)


def _join_word(letters: list[str], start: tuple[int, int], parts: list[Piece]) -> Word:
    return Word(
        "".join(letters),
        *start,
        unknown_pieces(parts),
        parts[0].file,
        many=True,
        last=_last_of(parts),
    )


def spelt(word: Word) -> str:
    """The word as in the script, with the expressions of unknown parts."""
    sources = (piece.source for piece in word.unresolved)
    parts = word.text.split(UNTOLD)
    # Parts of a text that was read again may lack theirs.
    return parts[0] + "".join(f"{next(sources, '...')}{part}" for part in parts[1:])
