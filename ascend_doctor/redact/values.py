"""Values behind their names, in any syntax: sign, pair, element, option, column."""

import functools
import re
from collections.abc import Iterator

from ascend_doctor.redact.meanings import STEMS, Cell, Meaning, meaning
from ascend_doctor.redact.shapes import BETWEEN, compile_pattern

_CLOSE = r"""[\\"'\]”`]{0,12}"""
_SIGN = (
    rf"{_CLOSE}[ \t]*(?::=|=>|->|[=:：→])[ \t\r]*"  # noqa: RUF001
    r"""(?:\[\s*(?=[\\"']))?(?:[&!][\w!]+[ \t]+|[bru]{1,2}(?=["']))?"""
)
_FOLD = r"[ \t]*(?:\\|[>|][+-]?)?"
# A sign, a lone value in the next line, a pair of ``name`` and ``value``, an element, two bracketed
# values, a sentence.
_ASSIGNED = (
    rf"(?:{_SIGN}|{_CLOSE}[ \t\r]*\n\s*:[ \t]+"
    rf"|{_CLOSE}[ \t]*[=:]{_FOLD}[ \t\r]*\n\s*(?:[->][ \t]+)?(?=\S{{3,}}[ \t\r]*$)"
    r"(?!\S*[:\]]\s*$|-)"
    rf"""|{_CLOSE}\s{{0,99}}(?:[,;]|</\w+>\s{{0,99}}<|:\s{{0,99}}\{{)?\s{{0,99}}["'\\]*\bval(?:ue)?{_CLOSE}\s*[:=>]\s*"""
    r"""|>(?=[^<>\n]+</)|[\\"']{1,12},\s*(?=[\\"'][^\s"']*\d[^\s"']*[\\"']\s*\))"""
    r"|[”\"」]?(?:的值)?[为是]"
    r"|[ \t]+(?:is|was|(?:is )?set to)[ \t]+(?=\S*\d)(?=\S{6}))"
)
_OPTION = r"""(?:[\\"']{0,12}(?:=|[ \t])|[\\"']{1,12},\s*(?=[\\"']))(?!-)"""
_COLUMN = r"(?:[ \t]+[|│┃][ \t]*|[|│┃][ \t]+)"
_BEFORE = compile_pattern(r"(?:\w+ ){0,2}[\w.-]*\Z")
_AFTER = compile_pattern(r"\w*(?:[.-]\w+)*(?: (?:number|no|key|id|tag|name|secret|token)\b)?")
_COMMAND = re.compile(r"\b(?:setx|setenv|export)[ \t]+$")
_URL = re.compile(r"://\S*$")
_NEAR = 60


@functools.cache
def _patterns(value: str) -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    parts = (_ASSIGNED, _OPTION, _COLUMN)
    first, second, third = (compile_pattern(f"{part}{value}") for part in parts)
    return first, second, third


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
    assigned, option, column = _patterns(sense.value)
    if match := assigned.match(text, end):
        return match
    start = end - len(name)
    if name.startswith("-") or _COMMAND.search(text[max(0, start - 10) : start]):
        return option.match(text, end)
    match = column.match(text, end)
    if match is None:
        return None
    # In a table: a name of several words, of capitals, or of digits. Two of capitals head columns.
    value = match[match.lastindex or 0]
    heading = value.isupper() and value.isalpha() and re.match(r"[ \t]*[|│┃]", text[match.end() :])
    telling = re.search(r"\W|_", name) or name.isupper() or re.search(r"\d", value)
    return match if telling and not heading else None
