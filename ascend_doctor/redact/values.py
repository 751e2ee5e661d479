"""Values behind their names, in any syntax: sign, pair, element, option, column."""

import re
from collections.abc import Iterator

from ascend_doctor.patterns import defer
from ascend_doctor.redact.meanings import STEMS, Cell, Meaning, meaning
from ascend_doctor.redact.shapes import BETWEEN, compile_pattern

_CLOSE = r"""[\\"'“\]”»›’`]{0,12}"""  # noqa: RUF001
_SIGN = (
    rf"{_CLOSE}[ \t]*(?::=|=>|->|[=:：→])[ \t\r]*"  # noqa: RUF001
    r"""(?:\[\s*(?=[\\"']))?(?:[&!][\w!]+[ \t]+|[bru]{1,2}(?=["'])|[A-Z]\w+\((?=["']))?"""
)
_FOLD = r"[ \t]*(?:\\|[>|][+-]?)?"
# What holds the value of a named thing, and its other fields.
_FIELD = (
    rf"""["'\\]*\b(?:\w{{0,20}}val(?:ue)?s?|current|content|default){_CLOSE}\s*[:=>]\s*"""
    rf"""(?:[\[{{-](?!redacted)\s*(?:["'\\]*\w*value{_CLOSE}\s*:\s*)?)?"""
)
_OTHERS = (
    r"""(?:["'\\]*\w+["'\\]*[ \t]*[:=][ \t]*["'\\]*[\w./-]*["'\\]*"""
    r"(?:[ \t]*,\s{0,99}|\s{1,99})){0,3}?"
)
# A sign, a lone value in the next line, an object with fields, an element, a row, two bracketed
# values, a sentence, a line of dots.
_ASSIGNED = (
    rf"(?:{_SIGN}|{_CLOSE}[ \t\r]*\n\s*:[ \t]+"
    rf"|{_CLOSE}[ \t]*[=:]{_FOLD}[ \t\r]*\n\s*(?:[->][ \t]+)?(?=\S{{3,}}[ \t\r]*$)"
    r"(?!\S*[:\]]\s*$|-)"
    rf"|{_CLOSE}[ \t]*:\s{{0,99}}(?:\{{\s{{0,99}})?{_OTHERS}{_FIELD}"
    rf"|{_CLOSE}\s{{0,99}}(?:[,;]|</\w+>\s{{0,99}}<)?\s{{0,99}}{_OTHERS}{_FIELD}"
    r"|>(?=[^<>\n]+</)|</\w+>\s{0,99}(?:<[a-z][^<>\n]{0,80}>\s{0,99}){1,3}"
    r"|[”\"」]?(?:的值)?[为是]|[ \t]+(?:\.{3,}|…+)[ \t]+"
    r"|[ \t]+(?:is|was|(?:is )?set to)[ \t]+(?=\S*\d)(?=\S{6}))"
)
_OPTION = r"""(?:[\\"']{0,12}(?:=|[ \t])|[\\"']{1,12},\s*(?=[\\"']))(?!-)"""
_PAIR = r"""[\\"']{1,12},\s*(?:[bru]{1,2})?(?=[\\"'])"""
_COLUMN = r"(?:[ \t]+[|│┃][ \t]*|[|│┃][ \t]+|[ \t]{2,}(?=\S+[ \t]*$))"
_BEFORE = compile_pattern(r"(?:\w+ ){0,2}[\w.-]*\Z")
_AFTER = compile_pattern(r"\w*(?:[.-]\w+)*(?: (?:number|no|key|id|tag|name|secret|token)\b)?")
_COMMAND = defer(r"\b(?:setx|setenv|export|set(?:[ \t]+-\w+)+|[gs]et-?prop|define)[ \t]+[\w./-]*$")
_KEEPS = defer(
    r"(?:set|put|define|add|insert|append|header|env|config|save)\w*\(\s*[\\\"']+$", re.IGNORECASE
)
_BAR, _RULE_BELOW = defer(r"[ \t]*[|│┃]"), defer(r"[^\n]*\n[ |+:=-]*[=-]{3}")
_URL = defer(r"://\S*$")
_NEAR = 60


def find_values(text: str) -> Iterator[Cell]:
    """The values, in the order of the text."""
    done = 0
    lowered = text.lower()
    for hit in STEMS.finditer(lowered if len(lowered) == len(text) else text):
        if hit.start() < done:
            continue
        near = max(0, hit.start() - _NEAR)
        before, after = (
            _BEFORE.search(text[near : hit.start()]),
            _AFTER.match(text, hit.end(), hit.end() + _NEAR),
        )
        start = near + before.start() if before else hit.start()
        end = after.end() if after else hit.end()
        value = _value_of(text, start, end)
        if value:
            yield value
        done = value.end if value else end


def _value_of(text: str, start: int, end: int) -> Cell | None:
    """The value of the longest name that has a meaning and ends there."""
    whole = text[start:end].replace(BETWEEN, " ")
    for name in dict.fromkeys((whole.rpartition(" ")[2], whole)):
        sense = meaning(re.sub("^-+(?:D(?=[a-z]))?", "", name))
        if sense and (match := _match(sense, name, text, end)):
            number = next(n for n in range(1, match.re.groups + 1) if match.start(n) >= 0)
            first, last = match.span(number)
            if _URL.search(text, max(0, first - 500), first):
                last = first + len(re.split("[?#&;]", text[first:last])[0])
            return Cell(sense.kind, first, last)
    return None


def _match(sense: Meaning, name: str, text: str, end: int) -> re.Match[str] | None:
    def read(before: str) -> re.Match[str] | None:
        return compile_pattern(before + sense.value).match(text, end)

    if match := read(_ASSIGNED):
        return match
    start = end - len(name)
    before = text[max(0, start - 24) : start]
    if name.startswith("-") or _COMMAND.search(before):
        return read(_OPTION)
    if match := read(_PAIR):
        return match if _KEEPS.search(before) or re.search(r"\d", match[0]) else None
    match = read(_COLUMN)
    return match if match and _heads(name, sense, match) else None


def _heads(name: str, sense: Meaning, match: re.Match[str]) -> bool:
    """A name of several words, of capitals, or of digits. Two of capitals head columns."""
    value, start = match[match.lastindex or 0], match.start(match.lastindex or 0)
    digits = re.search(r"\d", value)
    if not re.search(r"[|│┃]", match.string[match.start() : start]):
        composite = re.search(r"[._-]|[a-z][A-Z]|[^\x00-\x7f]", name) or sense.kind == "password"
        return bool(composite and digits)
    rule = _RULE_BELOW.match(match.string, match.end())
    heading = rule or (
        value.isupper() and value.isalpha() and _BAR.match(match.string, match.end())
    )
    return bool((re.search(r"\W|_", name) or name.isupper() or digits) and not heading)
