"""Words that every match of a pattern contains, in lower case: of each alternative the longest."""

from __future__ import annotations

import itertools
import re

# A part of a pattern: an escape, the opening of a group, a class, what repeats, or one character.
_PART = re.compile(
    r"\\x[0-9a-fA-F]{2}|\\.|\((?:\?(?:P?<\w+>|P=|<?[=!]|[a-zA-Z-]*:?))?|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\]|\{\d*,?\d*\}|.",
    re.DOTALL,
)
# One letter is in nearly every line, and tells nothing.
_LEAST = 2
# A group whose text is part of the match: no lookaround.
_GROUP = re.compile(r"\((\?[a-zA-Z-]*:|\?P?<\w+>)?")
# What repeats once or more is in every match; behind * or ? it may be absent.
_NEVER_LESS = re.compile(r"\+|\{[1-9]")


def find_words(pattern: str) -> frozenset[str]:
    """Words of which any match contains one; none where no such words can be told."""
    words, _ = _read_alternatives(_PART.findall(pattern), 0)
    return frozenset(word.lower() for word in words)


def split_alternatives(pattern: str) -> list[str]:
    """The alternatives of a pattern, of which a match is one."""
    alternatives, depth = [""], 0
    for part in _PART.findall(pattern):
        depth += part[0] == "("
        depth -= part == ")"
        if part == "|" and not depth:
            alternatives.append("")
        else:
            alternatives[-1] += part
    # Flags at the start are those of the whole.
    if re.match(r"\(\?[a-zA-Z]+\)", pattern):
        return [pattern]
    return [inner for text in alternatives for inner in _split_group(text)]


def _split_group(pattern: str) -> list[str]:
    """The alternatives of a pattern that is one group with flags of its own."""
    parts = _PART.findall(pattern)
    if not parts or not re.fullmatch(r"\(\?[a-zA-Z-]*:", parts[0]):
        return [pattern]
    depths = itertools.accumulate((part[0] == "(") - (part == ")") for part in parts)
    if min([*depths][:-1]) == 0:
        return [pattern]
    return [f"{parts[0]}{inner})" for inner in split_alternatives("".join(parts[1:-1]))]


def _read_alternatives(parts: list[str], start: int) -> tuple[frozenset[str], int]:
    """The words of alternatives up to the end of their group, and where it ends."""
    alternatives: list[frozenset[str]] = []
    position = start
    while True:
        words, position = _read_sequence(parts, position)
        alternatives.append(words)
        if position >= len(parts) or parts[position] == ")":
            break
        position += 1
    known = all(alternatives)
    return frozenset().union(*alternatives) if known else frozenset(), position


def _read_sequence(parts: list[str], position: int) -> tuple[frozenset[str], int]:
    """The best words of one alternative, and where it ends."""
    best: frozenset[str] = frozenset()
    run = ""
    while position < len(parts) and parts[position] not in {"|", ")"}:
        part = parts[position]
        if part[0] == "(":
            best, run = _better(best, run), ""
            inside, position = _read_alternatives(parts, position + 1)
            following = parts[position + 1] if position + 1 < len(parts) else ""
            if _GROUP.fullmatch(part) and not _may_be_absent(following):
                best = _better_of(best, inside)
        elif character := _literal(part):
            following = parts[position + 1] if position + 1 < len(parts) else ""
            if _may_be_absent(following):
                best, run = _better(best, run), ""
            elif _NEVER_LESS.match(following):
                best, run = _better(best, run + character), ""
            else:
                run += character
        else:
            best, run = _better(best, run), ""
        position += 1
    return _better(best, run), position


def _may_be_absent(following: str) -> bool:
    """Whether what a quantifier stands behind need not be there."""
    return following in {"?", "*"} or (
        following.startswith("{") and following[1] not in "123456789"
    )


def _literal(part: str) -> str:
    """The character that a part is, "" for anything else."""
    if len(part) == 1:
        return "" if part in ".^$?*+()|[{" else part
    escaped = part[1:]
    if part[0] == "\\" and len(escaped) == 1 and not escaped.isalnum():
        return escaped
    return ""


def _better(best: frozenset[str], run: str) -> frozenset[str]:
    return _better_of(best, frozenset({run}) if len(run) >= _LEAST else frozenset())


def _better_of(best: frozenset[str], words: frozenset[str]) -> frozenset[str]:
    """Those of which the shortest is longer: they are rarer."""
    return max(best, words, key=lambda words: min(map(len, words), default=0))
