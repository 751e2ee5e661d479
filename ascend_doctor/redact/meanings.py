"""What the words of a name say about its value, and whether a value is what its name says.

A name becomes one letter a word, by families.txt; rules.txt says by those letters what its
value is. The value decides: what a name only hints at has to be strange.
"""

import functools
import re
from collections.abc import Callable
from typing import NamedTuple

from ascend_doctor.patterns import defer
from ascend_doctor.redact.names import is_word
from ascend_doctor.redact.vocabulary import (
    SYNTAXES,
    fill,
    is_drawn,
    is_hex,
    is_known,
    is_strange,
    read_rows,
)

FAMILY = {
    word: letters for letters, *words in map(str.split, read_rows("families.txt")) for word in words
}
_NOT_ASCII = defer("|".join(sorted((w for w in FAMILY if not w.isascii()), key=len)[::-1]))
_LEAST_STEM, _LONGEST = 3, 200
_SURE_ENDS = defer("(?:passw(?:or)?d|pwd?|psk|secret|apikey|token|username|hostname)$")
_BREAKS = defer(
    r"(?<=[a-z\d])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[^\W\d_])(?=\d)|[\W_]+"
    + fill("|(?<=[a-zA-Z])(?=@han@)|(?<=@han@)(?=[a-zA-Z])")
)
_NOTHING, _PATH, _NUMBER, _FIELD_NODE = (
    defer(SYNTAXES[name][0], re.IGNORECASE) for name in ("nothing", "path", "number", "fieldnode")
)
_SUFFIX = defer(r"-(?=[a-z]*\d|[^aeiou]{5})[a-z\d]{5}$")  # that Kubernetes draws
_DOMAIN = defer(r"(?:[a-z][\w-]*\.){3,}(?:net|com|org|cn|edu|lan|io)$")
_STAFF, _MIXED = (defer(SYNTAXES[name][0], re.IGNORECASE) for name in ("staff", "mixed"))


class Cell(NamedTuple):
    """A value, its place in a text, and what its name says that it is."""

    kind: str
    start: int
    end: int


def _is_odd(value: str) -> bool:
    """Words that software does not have, or numbers and checksums."""
    runs = re.findall(r"[A-Za-z\d]{6,}", value)
    hexadecimal = any(is_hex(run) or (run.isdigit() and len(run) > 9) for run in runs)  # noqa: PLR2004
    return hexadecimal or is_strange(value) or is_drawn(value, 12)


def is_sum(value: str) -> bool:
    return len(value) > 15 and is_hex(value.replace("-", ""))  # noqa: PLR2004


@functools.cache
def _reader(test: str) -> Callable[[str], int]:
    """What gives the length of a value, by a pattern of rules.txt."""
    check = CHECKS.get(test[0])
    pattern = defer(fill(test[1:] if check else test), re.IGNORECASE)

    def read(value: str) -> int:
        match = pattern.match(value)
        tested = match and (not check or (check(match[0]) and not _PATH.match(match[0])))
        return match.end() if match and tested else 0

    return read


def is_stranger(name: str) -> bool:
    """Somebody's name: strange, not drawn, no checksum, no sentence without blanks."""
    name = _SUFFIX.sub("", name)
    drawn = is_drawn(name) or any(len(run) > 7 and is_hex(run) for run in name.split("-"))  # noqa: PLR2004
    sentence = re.fullmatch(r"[^\x00-\x7f]{5,}", name)
    return is_strange(name) and not drawn and not sentence


def _is_machine(value: str) -> bool:
    """A word with digits that are no architecture's, or a strange name with a domain."""
    strange, digits = is_strange(value), len(re.findall(r"\d", value))
    strange_parts = strange and ("-" in value or value.count(".") > 1)
    named = strange_parts or digits > 1 or (digits and ("-" in value or strange))
    return (
        bool(named or _DOMAIN.search(value)) and value[0].islower() and not _FIELD_NODE.match(value)
    )


def _is_mixed(value: str) -> bool:
    return _is_odd(value) or bool(_MIXED.match(value))


# What values have to be, before their patterns and behind the kinds of shapes.
CHECKS: dict[str, Callable[[str], bool]] = {
    "?": is_stranger,
    ":": _is_machine,
    "%": _is_odd,
    "&": lambda text: (
        _is_odd(text) and (is_drawn(text, 20) or not re.search("[PSKTDp]", families(text)))
    ),
    "!": lambda value: all(map(is_strange, re.split(r"[.\s]+", value))),
    "#": lambda value: _is_machine(value.lower()) or is_stranger(value),
    "~": lambda value: not (_PATH.match(value) or _NOTHING.match(value)) and _is_mixed(value),
}


class Meaning(NamedTuple):
    """What values of such names are: one of ``tests`` as in rules.txt.

    ``sure``: of a value that only stands beside its name, too; ``listed``: of several.
    """

    kind: str
    names: re.Pattern[str]
    tests: tuple[str, ...]
    sure: bool = True
    listed: bool = False


def _meaning_of(row: str) -> Meaning:
    kind, names, *tests = row.split("  ")
    return Meaning(kind.rstrip("?"), defer(names), tuple(tests), "?" not in kind, "V" in names)


_RULES = tuple(map(_meaning_of, read_rows("rules.txt")))
_DRAWN = Meaning("key", defer(""), ("&@code@{12,}$",))


@functools.lru_cache(1 << 13)
def letters_of(word: str) -> str:
    """The families of a word in small letters; X is no word of software."""
    family = FAMILY.get(word) or ("0" if word.isdigit() else "L" if len(word) <= 1 else "")
    if not family and word[-1] == "s":
        family = FAMILY.get(word[:-1], "T").strip("Tp")
    if not family and not word.isascii():
        family = "".join(FAMILY[each] for each in _NOT_ASCII.findall(word)) or "X"
    if not family and (end := _SURE_ENDS.search(word)):
        family = "X" + FAMILY[end[0]]
    return family or ("w" if is_known(word) else _split(word))


def _split(word: str) -> str:
    """The families of an unknown word that ends with a known one."""
    for at in range(1, min(len(word) - 1, 40)):
        if word[at:] in FAMILY and (len(word) - at >= _LEAST_STEM or FAMILY[word[at:]] in "pR"):
            return (FAMILY.get(word[:at]) or "X") + FAMILY[word[at:]]
    return "X"


def families(name: str) -> str:
    """A letter for each word of a name."""
    words = [word for word in _BREAKS.sub("_", name.rpartition("/")[2]).lower().split("_") if word]
    letters, at = "", 0
    while at < len(words):
        joined = "".join(words[at : at + 2])
        pair = at + 1 < len(words) and joined in FAMILY
        family = FAMILY[joined] if pair else letters_of(words[at])
        if family == "B" and not (at and words[at - 1].endswith("ed")):
            family = "w"
        letters += family
        at += 2 if pair else 1
    return re.sub("^[wX]+(?=U$)", "", letters.replace("p", "w")) if " " in name else letters


@functools.lru_cache(1 << 12)
def meaning(name: str) -> Meaning | None:
    """What the value of a name is, if it may have to be hidden."""
    letters = "UN" if name == "USER" else families(name)  # "user" is also a word of the field
    for rule in _RULES:
        if rule.names.search(letters):
            return rule
    secret = re.search("[PpSKTDQqYa]", letters) and not re.search("Z", letters)
    return _DRAWN if secret else None


_TIED: dict[str, Callable[[str], int | bool]] = {
    **dict.fromkeys(("key", "token"), _is_odd),
    "user": lambda value: _is_odd(value) or bool(_STAFF.match(value)),
    **dict.fromkeys(("password", "secret"), _is_mixed),
    "host": lambda value: _is_machine(value.lower()),
}


def judge(sense: Meaning, value: str, *, beside: bool = False) -> int:
    """How much of a value is hidden, from its start; ``beside``: no sign ties it to a name."""
    if len(value) > _LONGEST:
        return len(value) * (judge(sense, value[:_LONGEST], beside=beside) == _LONGEST)
    if _NOTHING.match(value) or (sense.kind == "user" and is_word(value)):
        return 0
    loose = sense is _DRAWN and not (is_drawn(value, 12) or is_sum(value))
    if beside and (loose or _PATH.match(value) or not _TIED.get(sense.kind, bool)(value)):
        return 0
    return max(_reader(test)(value) for test in sense.tests)


_COLUMNS = {
    "user": Meaning("user", defer(""), (r"(?-i:[^\W\dA-Z][\w.-]*|\d{5,16})",)),
    "host": Meaning("host", defer(""), (r"(?-i:[a-z][\w-]*(?:\d|\.[a-z])[\w.-]*)",)),
}


def in_column(sense: Meaning) -> Meaning:
    """What a column below such a heading holds: names need not be strange."""
    return sense if sense.sure or "u[" in sense.names.pattern else _COLUMNS.get(sense.kind, sense)
