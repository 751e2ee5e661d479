"""Values behind their names, in any syntax: sign, pair, element, option, or beside."""

import functools
import itertools
import re
from collections.abc import Iterator

from ascend_doctor.patterns import defer
from ascend_doctor.redact.meanings import FAMILY, Cell, Meaning, families, is_sum, judge, meaning
from ascend_doctor.redact.shapes import BETWEEN, compile_pattern
from ascend_doctor.redact.vocabulary import SYNTAXES, is_strange

_ASSIGNED = tuple(map(compile_pattern, SYNTAXES["assigned"]))
_OPTION, _PAIR, _CELL, _BESIDE, _FARTHER, _TURNED = (
    compile_pattern(SYNTAXES[name][0])
    for name in ("option", "pair", "cell", "beside", "farther", "turned")
)
_CLOSED = defer(r"[\\\"']*\s*[\])]")
_BEFORE = compile_pattern(r"(?:\w[\w-]* ){0,2}[\w.-]*\Z")
_AFTER = compile_pattern(r"\w*(?:[.-]\w+)*(?: (?:number|no|key|id|tag|name|secret|token)\b)?")
_COMMAND = defer(r"\b(?:setx|setenv|export|set(?:[ \t]+-\w+)+|[gs]et-?prop|define)[ \t]+[\w./-]*$")
_KEEPS = defer(
    r"(?:set|put|define|add|insert|append|header|env|config|save)\w*\(\s*[\\\"']+$", re.IGNORECASE
)
# What those begin with.
_COMMANDS, _QUOTES, _BARS = ("set", "get", "export", "define"), {*"\\\"'"}, {*"|│┃"}
_URL, _PATH = defer(r"://\S*$"), defer(r"://[^/\s]+/\S*$")
_NODES = defer(r"[\w.,\[\]-]+")
_DIGIT = defer(r"\d")
_NAMED = defer(r"""[^\n"'<>()|;=:]+""")
# What a value is not: a name with its sign, a call.
_NAME_NEXT = defer(r"""[\w.-]+["'\\]*(?:\(|[ \t]*(?:=|:(?=\s|$)))""")
_SIGNS = defer(r"""[^\w\s"'`|│┃/]""")
_DASHES = defer("^-+(?:D(?=[a-z]))?")
_NEAR, _LONGEST, _MANY = 60, 300, 200
_REST = defer(r"[^\s\"',;&)}]*")
_LETTERS = defer(r"[^\W\d_]+")
_TELLING = frozenset("PpSKTDaUuHVRFCOcEYbdkz")
_EXACT, _STEMS = (
    tuple(
        word
        for word, letters in FAMILY.items()
        if (
            _TELLING & {*letters}
            or word in {"api", "access", "address", "guid", "uuid", "chassis", "by", "name"}
            or letters == "GN"
        )
        and (word.isascii() and len(word) < 4) is short  # noqa: PLR2004
    )
    for short in (True, False)
)
SECRETS = frozenset({"password", "secret", "key", "token", "code"})
# Of names of two words.
_PARTS = frozenset({"security", "plate", "tag", "assigned", "requested", "requestedfor"})
# By their first letter: hundreds of stems, and most words have none.
_INSIDE = {
    letter: tuple(stems)
    for letter, stems in itertools.groupby(sorted(_STEMS), lambda stem: stem[0])
}
# What is before any assigned value: a sign behind the name, or a field's name.
_SIGN = compile_pattern(SYNTAXES["sign"][0])


@functools.lru_cache(1 << 14)
def is_telling(word: str) -> bool:
    """Whether a word in small letters may be of a name that says what its value is."""
    inside = (word.startswith(_INSIDE.get(letter, ()), at) for at, letter in enumerate(word))
    return word in _PARTS or word.removesuffix("s").endswith(_EXACT) or any(inside)


@functools.lru_cache(256)
def _any_of(words: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"(?<![^\W\d_])(?:{'|'.join(words)})(?![^\W\d_])")


def _find_names(lowered: str) -> Iterator[re.Match[str]]:
    telling = {*filter(is_telling, {*_LETTERS.findall(lowered)})}
    if 0 < len(telling) < _MANY:
        yield from _any_of(tuple(sorted(telling))).finditer(lowered)
    elif telling:
        yield from (word for word in _LETTERS.finditer(lowered) if word[0] in telling)


def find_values(text: str) -> Iterator[Cell]:
    """The values, in the order of the text."""
    done, floor, person = 0, 0, -_NEAR
    if text.isascii() and text.isalnum():  # a word
        return
    lowered = text.lower()
    lowered = lowered if len(lowered) == len(text) else text
    for hit in _find_names(lowered):
        if hit.start() < done:
            continue
        near = max(0, hit.start() - _NEAR)
        before, after = (
            _BEFORE.search(text[near : hit.start()]),
            _AFTER.match(text, hit.end(), hit.end() + _NEAR),
        )
        start = near + before.start() if before else hit.start()
        end = after.end() if after else hit.end()
        kin = "full name" if start - person < _NEAR and text[start:end].lower() == "name" else ""
        value = _value_of(text, start, end, floor, kin)
        if value:
            yield value
            floor = value.end
            person = value.end if value.kind == "user" else person
        done = max(value.end, end) if value else end


def _value_of(text: str, start: int, end: int, floor: int, kin: str) -> Cell | None:
    """The value of a name that ends there."""
    words = text[start:end].replace(BETWEEN, " ").split(" ")
    for size in range(1, len(words) + 1):
        name = " ".join(words[-size:])
        if sense := meaning(kin or _DASHES.sub("", name)):
            cell = _read(sense, name, text, end)
            if cell or (cell := _before(sense, text, end - len(name), floor)):
                return cell
    return None


def _read(sense: Meaning, name: str, text: str, end: int) -> Cell | None:
    start = end - len(name)
    before = text[max(0, start - 24) : start]
    follows = text[end : end + _NEAR].lstrip(f" \t{BETWEEN}")[:1]
    patterns = [*_ASSIGNED] if _SIGN.match(text, end) else []
    announced = before[-1:] in _QUOTES or any(word in before for word in _COMMANDS)
    if name.startswith("-") or (announced and (_COMMAND.search(before) or _KEEPS.search(before))):
        patterns.append(_OPTION)
    if follows in _BARS and re.search(r"[._-]|[a-z][A-Z]", name) and sense.sure:
        patterns.append(_CELL)
    for pattern in patterns:
        if (match := pattern.match(text, end)) and (cell := _judge_match(sense, match)):
            return cell
    match = _PAIR.match(text, end) if text[end : end + 1] in _QUOTES else None
    value = match[match.lastindex or 0] if match else ""
    listed = match and _CLOSED.match(text, match.end()) and before.rstrip("\\\"'")[-1:] in "[("
    paired = listed or re.search(r"\d", value) or is_strange(value)
    if match and paired and (cell := _judge_match(sense, match)):
        return cell
    match = _BESIDE.match(text, end)
    if sense.sure and (not match or not judge(sense, match[match.lastindex or 0], beside=True)):
        match = (_DIGIT.search(text, end, end + _LONGEST) and _FARTHER.match(text, end)) or match
    tied = match and _ties(sense, match) and ("/" not in match[1] or _is_segment(text, name, end))
    return _judge_match(sense, match, beside=True) if match and tied else None


def _ties(sense: Meaning, match: re.Match[str]) -> bool:
    """Whether the name has the value without a sign."""
    gap, value = match[1], match[match.lastindex or 0]
    listed = re.search("[,;]", gap) and not re.search(r"\d", value)
    named = _NAME_NEXT.match(match.string, match.start(match.lastindex or 0))
    listed = listed or (named and not is_sum(value.rstrip(":")))
    heading = listed or (value.isupper() and value.isalpha())
    sure = sense.sure or (sense.kind in {"user", "host"} and not _SIGNS.search(gap))
    return sure and not heading and not re.search(r"[!?]\s|[)#@]", gap)


def _is_segment(text: str, name: str, end: int) -> bool:
    """Whether a name is a whole part of a URL's path, of words that are known."""
    path = _PATH.search(text, max(0, end - 500), end)
    known = re.fullmatch("[^OE]+", families(name)) and (families(name) != "H" or name == "node")
    return bool(path and known) and text[end - len(name) - 1] == "/"


def _judge_match(sense: Meaning, match: re.Match[str], *, beside: bool = False) -> Cell | None:
    first, last = match.span(match.lastindex or 0)
    text = match.string
    bare = text[first:last].strip("\\\"'")
    first += text[first:last].index(bare)
    last = first + len(bare)
    if not bare:
        return None
    if _URL.search(text, max(0, first - 500), first):
        last = first + len(re.split("[?#&;]", text[first:last])[0])
    if beside and "/" in match[1]:
        last = first + len(text[first:last].partition("/")[0])
    elif sense.kind not in SECRETS and re.match(r"\d|[^\W_a-z]", text[first]):
        name = _NAMED.match(text, first, first + 80)
        last = max(last, name.end() if name else 0)
    if sense.listed and (nodes := _NODES.match(text, first, first + _LONGEST)):
        last = max(last, nodes.end())
    if last - first > _LONGEST and sense.kind not in SECRETS:
        return None
    size = judge(sense, text[first:last], beside=beside)
    if size > _LONGEST and (rest := _REST.match(text, last)):  # longer than a syntax reads
        size = rest.end() - first
    return Cell(sense.kind, first, first + size) if size else None


def _before(sense: Meaning, text: str, start: int, floor: int) -> Cell | None:
    near = max(floor, start - _LONGEST)
    match = _TURNED.search(text[near:start]) if "value" in text[near:start].lower() else None
    size = judge(sense, match[match.lastindex or 0]) if match else 0
    first = near + match.start(match.lastindex or 0) if match else 0
    return Cell(sense.kind, first, first + size) if size else None
