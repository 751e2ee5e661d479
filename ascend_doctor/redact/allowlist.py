"""What a text that leaves for good may say: words of software and of this package, no others."""

import functools
import json
import re
import string
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ascend_doctor import patterns
from ascend_doctor.patterns import defer
from ascend_doctor.redact.vocabulary import is_drawn, is_hex, is_software, words_of

_PACKAGE, _ENDINGS = Path(__file__).parents[1], (".po", ".py", ".txt", ".yaml")
_TABLE = patterns.read_patterns(Path(__file__).parent / "pieces.txt")
_PIECES = defer("|".join(_TABLE["piece"]))
_IS = {name: defer(rows[0]) for name, rows in _TABLE.items()}
_HEADS, _CAMEL = defer(r"[A-Za-z]+(?=\d)"), defer("[A-Z]?[a-z]{2,}[A-Z][a-z]+|[A-Z]+[a-z]{2,}[A-Z]")
_MANTISSA = defer(r"\d+[eE]")
_WORDS, _COMPOUNDS = defer(r"[^\W_]+"), defer(r"\w[\w-]+")
# Digits of a number that is hidden: in our files, alone, counted, with a 0 before.
_BESIDE_DIGITS, _LONE_DIGITS, _COUNTED_DIGITS, _STAFF_DIGITS = 4, 6, 10, 7
_GROUPED_DIGITS, _MIXED_DIGITS, _ISSUED_DIGITS = 6, 5, 3
_HEX_LENGTH, _DRAWN_LENGTH = 16, 8
_CHARACTERS_BEFORE = 200


class _Own(NamedTuple):
    """Words of our files, in small letters; ``counters`` before a number, ``units`` behind one."""

    words: frozenset[str]
    counters: frozenset[str]
    units: frozenset[str]


@functools.cache
def _own() -> _Own:
    texts_of: dict[str, set[str]] = {name: set() for name in ("domain", "counter", "unit")}
    names = texts_of["domain"]
    for base in (_PACKAGE, _PACKAGE.parent / "matrices"):  # inside, if it was installed
        for path in base.rglob("*"):
            if path.suffix in _ENDINGS:
                text = path.read_text("utf-8")
                for name, texts in texts_of.items():
                    texts.update(_IS[name].findall(text))
                names.update(_WORDS.findall(text), _COMPOUNDS.findall(text))
    # context-parallel of context_parallel_size
    names.update(name.rpartition("_")[0].replace("_", "-") for name in [*names])
    whole = [name for name in names if not re.search(r"\d", name)]
    words, *others = (frozenset(map(str.lower, texts)) for texts in texts_of.values())
    return _Own(words.union(*map(words_of, whole)), *others)


def own_words() -> frozenset[str]:
    """Words, runs of letters and digits, domains, and beginnings of compounds in our files."""
    return _own().words


def unknown_pieces(text: str, allowed: frozenset[str]) -> Iterator[tuple[str, int, int]]:
    """Kind and place of what is no word of software and not ``allowed``, in the text's order."""
    for match in _PIECES.finditer(text):
        kind = match.lastgroup or ""
        name, span = match[kind], match.span(kind)
        if whole := _hidden_whole(kind, name, _before(text, span[0])):
            if name not in allowed:
                yield whole, *span
        elif kind != "stays":
            runs = [run for run in _WORDS.finditer(text, *span) if run[0] not in allowed]
            odd = [_is_odd(text, run) for run in runs]
            for run, each in zip(runs, odd, strict=True):
                if each or (kind == "person" and any(odd)):
                    yield "word", *run.span()


def pieces_beside(text: str, allowed: frozenset[str]) -> Iterator[tuple[str, int, int]]:
    """The same for lines where somebody was hidden: only our words and what programs count stay."""
    for line in _IS["told"].finditer(text):
        for match in _IS["beside"].finditer(text, *line.span()):
            name = match["rest"]
            counted = name and name.isdigit() and _is_counted(text, match)
            if name and name not in allowed and not counted and not _is_plain(name):
                yield "word", *match.span("rest")


def _counter_of(before: str) -> str:
    counted = _IS["counted"].search(before)
    return counted[1].lower() if counted else ""


def _is_counted(text: str, number: re.Match[str]) -> bool:
    """By a word before it or behind it, as programs print numbers."""
    word, unit = _counter_of(_before(text, number.start())), _IS["unit"].match(text, number.end())
    before = word in _own().counters and not _IS["called"].match(word)
    return before or bool(unit and unit[1].lower() in _own().units)


def _is_plain(name: str) -> bool:
    """Our words, or such a word with a number."""
    if name.isalpha():
        return all(map(_is_own, words_of(name)))
    return name.isalnum() and name[0].isalpha() and name.lower() in own_words()


def _is_own(word: str) -> bool:
    return word in own_words() or word.removesuffix("s") in own_words()


def _is_odd(text: str, run: re.Match[str]) -> bool:
    before, after = _before(text, run.start()), text[run.end() : run.end() + 2]
    if _MANTISSA.fullmatch(run[0]) and re.match(r"[-+]\d", after):
        return False
    if run[0].isdigit():
        unit = _IS["unit"].match(text, run.end())
        if re.match(r"\.\d", after) or (unit and unit[1].lower() in _own().units):
            return False
    return (after[:1] != "." and _is_folder(run[0], before)) or _is_unknown(run[0], before)


def _is_folder(run: str, before: str) -> bool:
    """A part of a path, outside of what software installs, that we have no word for."""
    path = before.rpartition(" ")[2]
    return "/" in path and not _IS["software"].search(path) and not all(map(_is_own, words_of(run)))


def _before(text: str, at: int) -> str:
    return text[max(0, at - _CHARACTERS_BEFORE) : at].rpartition("\n")[2]


def _hidden_whole(kind: str, name: str, before: str) -> str:
    """As what a piece is hidden, if it is not judged by its words."""
    if kind == "joined" and not _is_known_whole(name, before):
        return "host" if re.search(r"\d", name) else "word"
    if kind in {"host", "user"} and name.lower() not in own_words():
        return kind
    if kind == "escaped":
        return "" if _is_of_software(str(json.loads(f'"{name}"'))) else "word"
    digits = sum(map(str.isdigit, name)) if kind == "groups" else 0
    if digits >= _GROUPED_DIGITS and _IS["grouped"].match(name):
        return "word"
    return kind.rstrip(string.digits) if kind[-1].isdigit() else ""


def _is_known_whole(name: str, before: str) -> bool:
    """Of two words: in this package, of a file of software, or with a short number."""
    if {name.lower(), name.lower().rstrip(string.digits)} & own_words():
        return True
    if "-" not in name and _IS["software"].search(before.rpartition(" ")[2]):
        return True
    head, *tail = re.split("[-_]", name)
    return all(map(_IS["tag"].match, tail)) and all(map(_is_of_software, words_of(head)))


def _is_unknown(run: str, before: str) -> bool:
    if run.isdigit():
        return _is_odd_number(run, before)
    digits = sum(map(str.isdigit, run))
    if run.lower() in own_words():
        return False
    if is_hex(run):
        return len(run) >= _HEX_LENGTH or digits >= _GROUPED_DIGITS
    if not run.isascii() and re.search("[a-z]", run):  # an accent splits no name
        return True
    # Behind what logs number, or behind two words.
    numbered = all(_IS["head"].match(word) or _CAMEL.match(word) for word in _HEADS.findall(run))
    drawn = is_drawn(run, _DRAWN_LENGTH) or digits >= _MIXED_DIGITS or not numbered
    strange = not all(map(_is_of_software, words_of(run)))
    return strange or (drawn and not _IS["code"].match(run))


def _is_odd_number(run: str, before: str) -> bool:
    """A number that nothing known counts."""
    own = len(run) > _BESIDE_DIGITS and run in own_words()
    if own or _IS["measured"].search(before) or re.search(r"\d\.$", before):
        return False
    word = _counter_of(before)
    if word and word not in _own().counters and not _IS["progress"].match(word):
        return len(run) >= _ISSUED_DIGITS
    long = _COUNTED_DIGITS if word and not _IS["called"].match(word) else _LONE_DIGITS
    return len(run) >= (min(long, _STAFF_DIGITS) if run[0] == "0" else long)


def _is_of_software(word: str) -> bool:
    """No compound of two words: a name may be."""
    words = {word, word.removesuffix("s"), word.removeprefix("lib")}
    return (word.isascii() and len(word) == 1) or any(
        each in own_words() or is_software(each) for each in words
    )
