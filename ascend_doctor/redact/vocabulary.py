"""What software is made of: words that a generated filter knows, and whether a text is drawn.

`python -m tests.vocabulary` writes the filter, and says where its words are from.
"""

import functools
import re
from _blake2 import blake2b  # hashlib loads OpenSSL
from collections.abc import Iterator
from pathlib import Path

from ascend_doctor import patterns
from ascend_doctor.patterns import defer

# Words of sources and of English, and the few of them that most packages use.
FILE, STRICT_FILE = (Path(__file__).parent / f"{name}.bloom" for name in ("words", "software"))
LEAST_LETTERS = 3
_WORD = defer(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[^\W\d_a-zA-Z]+")
_LETTERS = defer(r"[^\W\d_]{3,}")
_RUN = defer(r"[A-Za-z0-9]+")
_HEX = defer(r"(?:0x)?(?=[A-F\d]*\d)(?=\d*[A-F])[A-F\d]+|(?:0x)?(?=[a-f\d]*\d)(?=\d*[a-f])[a-f\d]+")
_DRAWN, _LONGEST = 16, 40


SYNTAXES = patterns.read_patterns(Path(__file__).parent / "syntaxes.txt")


def read_rows(name: str) -> list[str]:
    """Rows of a table beside this module."""
    return patterns.read_rows(Path(__file__).parent / name)


fill = functools.partial(patterns.fill, named=SYNTAXES)


def words_of(text: str) -> Iterator[str]:
    """Words of a name in small letters, split where case, digits and signs change."""
    return (word.lower() for word in _WORD.findall(text))


def bits_of(word: str, size: int) -> Iterator[int]:
    """Bits of a word in a filter of ``size`` bytes."""
    digest = blake2b(word.encode(), digest_size=32).digest()
    return (int.from_bytes(digest[at : at + 4], "big") % (size << 3) for at in range(0, 32, 4))


@functools.cache
def _table(file: Path) -> bytes:
    return file.read_bytes()


def _has(file: Path, word: str) -> bool:
    table = _table(file)
    return all(table[bit >> 3] >> (bit & 7) & 1 for bit in bits_of(word, len(table)))


@functools.lru_cache(1 << 15)
def is_known(word: str) -> bool:
    """Whether software has this word, in small letters; two letters say nothing."""
    return (len(word) < LEAST_LETTERS and word.isascii()) or _has(FILE, word)


@functools.lru_cache(1 << 15)
def is_software(word: str) -> bool:
    """Whether most packages use this word, in small letters."""
    return _has(STRICT_FILE, word)


@functools.lru_cache(1 << 14)
def is_strange(text: str) -> bool:
    """Whether a word of it is no word of software, alone or as two of four letters."""
    return not all(
        is_known(word) or (word[-1] == "s" and is_known(word[:-1])) or _is_pair(word)
        for word in words_of(text)
    )


@functools.lru_cache(4)
def strange_lines(text: str) -> list[tuple[int, int]]:
    """Places of the lines that have such a word."""
    places, at = [], 0
    for line in text.split("\n"):
        if any(map(is_strange, _LETTERS.findall(line))):
            places.append((at, at + len(line)))
        at += len(line) + 1
    return places


def _is_pair(word: str) -> bool:
    places = range(4, len(word) - 3) if len(word) < _LONGEST else ()
    return any(is_known(word[:at]) and is_known(word[at:]) for at in places)


def is_hex(text: str) -> bool:
    """Whether it may be a checksum: hexadecimal in one case."""
    return _HEX.fullmatch(text) is not None


@functools.lru_cache(1 << 12)
def is_drawn(text: str, least: int = _DRAWN) -> bool:
    """Whether a run of letters and digits in it has no words, as issuers draw it."""
    return any(
        len(run) >= least and not run.isdigit() and not is_hex(run) and _wild(run) * 2 > len(run)
        for run in _RUN.findall(text)
    )


def _wild(run: str) -> int:
    """How many of its letters and digits are in no word and no number."""
    words = [word for word in _WORD.findall(run) if len(word) >= LEAST_LETTERS]
    tame = sum(len(word) for word in words if is_known(word.lower()) or _is_pair(word.lower()))
    numbers = sum(len(number) for number in re.findall(r"\d{4,}", run))
    return len(run) - tame - numbers if re.search(r"\d", run) else 0
