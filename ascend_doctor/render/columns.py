"""Room on a terminal: Chinese letters take two columns, and lines break between them."""

import functools
import os
import re
import sys
import textwrap
import unicodedata

PAGE = 100  # columns of what no terminal shows
_WIDEST = 120  # beyond that a line of text is hard to follow
# The blank of a number and its unit, which stay on one line.
_UNIT = re.compile(r"(?<=\d) (?=(?:[KMGT]i?B|[mun]?s|min|h|%|TFLOPS)\b)")
# The words of a command in a sentence, which are pasted together.
_COMMAND = re.compile(
    r"\b(?:export|unset|source|ascend-doctor|ulimit -\S+|sysctl -w|(?:python -m )?pip \w+)"
    r"(?: -{1,2}\S+)* \S+"
)
# Code in a sentence, with the punctuation behind it.
_CODE = re.compile(r"`[^`\n]{1,300}`[^\w\s`]*")
# Replaces a blank that is kept; of private use, and no \s.
_KEPT = "\ue000"
_NOT_FIRST = frozenset("，。；：！？）】》”、,.;:!?)")  # noqa: RUF001 - Chinese punctuation
_LONGEST_PATH = 4096
_NOT_LAST = frozenset("（【《“(")  # noqa: RUF001 - as above


class Prose(str):
    """A text that may be broken, unlike a row of a table or a command to copy."""

    __slots__ = ()


def terminal_width(otherwise: int = PAGE) -> int:
    """The terminal's columns; ``otherwise`` without one."""
    # As shutil.get_terminal_size, which is slower to import.
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns)
    if sys.__stdout__ is None:
        return otherwise
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or otherwise
    except (ValueError, OSError):
        return otherwise


def page_width() -> int:
    return min(terminal_width(), _WIDEST)


def width(text: str) -> int:
    """The columns that a text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(letter) else 1 + _is_wide(letter) for letter in text)


def _is_wide(letter: str) -> bool:
    return unicodedata.east_asian_width(letter) in "WF"


def pad(text: str, room: int) -> str:
    return text + " " * (room - width(text))


def _join(command: str, room: int) -> str:
    return command.replace(" ", _KEPT) if len(command) <= room else command


def wrap(text: str, room: int) -> list[str]:
    """A text's lines of at most so many columns, unless a word or code is longer."""
    for code in _CODE.finditer(text):
        if width(code[0]) > room:
            before, after = text[: code.start()].rstrip(), text[code.end() :].lstrip()
            rows = wrap(before, room) if before else []
            return [*rows, code[0], *(wrap(after, room) if after else ())]
    text = _CODE.sub(lambda code: code[0].replace(" ", _KEPT), text)
    if text.isascii() or not any(map(_is_wide, text)):
        joined = _UNIT.sub(_KEPT, _cut_paths(text, room))
        joined = _COMMAND.sub(lambda match: _join(match[0], room), joined)
        rows = textwrap.wrap(joined, room, break_on_hyphens=False)
        return [row.replace(_KEPT, " ") for row in rows]
    rows = [""]
    for piece in _pieces(text):
        if rows[-1] and width(rows[-1]) + width(piece.rstrip()) > room:
            rows.append("")
        rows[-1] += piece if rows[-1] else piece.lstrip()
        while width(rows[-1]) > room and len(rows[-1].rstrip()) > room:
            rows[-1:] = [rows[-1][:room], rows[-1][room:]]
    return [row.rstrip().replace(_KEPT, " ") for row in rows]


def _cut_paths(text: str, room: int) -> str:
    """Break a path that is too long after a slash, so a name keeps its line number."""
    words = []
    for word in text.split(" "):
        rest = word
        while room < len(rest) < _LONGEST_PATH and (at := rest.rfind("/", 1, room)) > 0:
            words.append(rest[: at + 1])
            rest = rest[at + 1 :]
        words.append(rest)
    return " ".join(words)


def wrap_list(text: str, room: int) -> list[str]:
    """The lines of a list without blanks, broken after commas."""
    rows = [""]
    for item in re.findall(r"[^,]*,|[^,]+", text):
        if rows[-1] and width(rows[-1]) + width(item) > room:
            rows.append("")
        rows[-1] += item
    return rows


@functools.cache
def _piece() -> re.Pattern[str]:
    """A word, blanks, or one wide letter. Compiling large classes takes milliseconds."""
    return re.compile(r"\s+|[^\s\u2e80-\ua4cf\uff00-\uff60]+|[\u2e80-\ua4cf\uff00-\uff60]")


def _pieces(text: str) -> list[str]:
    pieces: list[str] = []
    for piece in _piece().findall(text):
        joined = pieces and (piece[0] in _NOT_FIRST or pieces[-1][-1] in _NOT_LAST)
        if joined:
            pieces[-1] += piece
        else:
            pieces.append(piece)
    return pieces
