"""All refusals of a launch: after each a value is replaced by one that passes, and it goes on."""

from __future__ import annotations

import difflib
import functools
import re
import time
from typing import Any, NamedTuple

from .frameworks import fewest_ranks
from .options import CommandWord
from .tries import ARGPARSE, WORLD, key_of, run_start

MAX_REFUSALS = 12
_MAX_OPTIONS = 6
_MAX_VALUES = 6
# A variable that a refusal asks for: CUDA_DEVICE_MAX_CONNECTIONS to 1.
_VARIABLE = re.compile(r"\b([A-Z][A-Z0-9]*_[A-Z0-9_]+)\b(?:\D{0,20}\b(\d+)\b)?")
_MOST_ROUND = 64


class Start(NamedTuple):
    """A program's words, and its ranks (None if unknown)."""

    framework: Any
    words: list[CommandWord]
    world: int | None
    env: dict[str, str]

    def run(self) -> dict[str, Any]:
        return run_start(*self)

    def without(self, option: dict[str, Any]) -> Start:
        return self._with(option["places"], [])

    def replacing(self, option: dict[str, Any], value: str) -> Start:
        if option["dest"] == WORLD:
            return self._replace(world=int(value))
        places, typed = option["places"], option["typed"]
        if typed.endswith("="):
            return self._with(places, [CommandWord(typed + value, places[0])])
        return self._with(places, [CommandWord(typed, places[0]), CommandWord(value, places[-1])])

    def _with(self, places: list[int], new: list[CommandWord]) -> Start:
        first = min((n for n, word in enumerate(self.words) if word.at in places), default=-1)
        left = [word for word in self.words if word.at not in places or word.at < 0]
        at = first if first >= 0 else len(left)
        return self._replace(words=[*left[:at], *new, *left[at:]])

    def alternatives(self, option: dict[str, Any]) -> list[Start]:
        """A start with other values of an option, the likeliest first."""
        if option["dest"] == WORLD:
            fewest = fewest_ranks(self.words)
            return [self.replacing(option, str(fewest * times)) for times in (1, 2, 8)]
        text = option["values"][0] if option["values"] else ""
        values = difflib.get_close_matches(text, option["choices"], _MAX_VALUES, 0.0)
        if not option["choices"] and not option["dest"].startswith("extra "):
            values = _sizes_near(text)[:_MAX_VALUES]
        others = [self.replacing(option, value) for value in values]
        alone = [self.without(option)]
        return [*others, *alone] if option["choices"] or option["kind"] == "int" else alone + others


def _sizes_near(text: str) -> list[str]:
    digits = re.match(r"\d{1,9}", text)
    if not digits:
        return []
    size = int(digits.group())
    powers = [2**power for power in range(size.bit_length() + 2)]
    near = {*powers, size - 1, size + 1, size}
    nearest = sorted(near, key=lambda other: abs(other - size))
    return [str(other) for other in nearest if other > 0 and str(other) != text]


def find_refusals(start: Start, ends: float) -> dict[str, Any]:
    """The refusals with their options by blame, without consequences; how the last start ended."""
    refusals: list[dict[str, Any]] = []
    replaced: set[str] = set()
    seen: set[str] = set()
    while True:
        answer = start.run()
        if "type" not in answer:
            return {"refusals": refusals, "ended": "", **answer}
        key = key_of(answer)
        if key in seen:
            return {"refusals": refusals, "ended": "", "options": []}
        seen.add(key)
        unknown = answer.get("file") == ARGPARSE and answer["text"].startswith("unrecognized")
        extra = answer["options"] if unknown else []
        following = functools.reduce(Start.without, extra, start) if extra else None
        following = following or _relax(start, answer, ends)
        if following is None and "passed" in answer:
            return {"refusals": refusals, "ended": "", **answer["passed"]}
        names = {option["dest"] for option in answer["options"]}
        if not replaced & {*names, *answer["related"]}:
            refusals += [{**answer, "options": [option]} for option in extra] or [answer]
        if following is None or len(refusals) >= MAX_REFUSALS or time.monotonic() > ends:
            return {"refusals": refusals, "ended": f"{answer['type']}: {answer['text']}"}
        replaced |= {option["dest"] for option in answer["options"][:1]} if names else set()
        start = following


def _relax(start: Start, answer: dict[str, Any], ends: float) -> Start | None:
    if variable := _VARIABLE.search(answer["text"]):
        answer["variable"] = variable.group(1)
        exported = {variable.group(1): variable.group(2) or "1"}
        other = start._replace(env=start.env | exported)
        if key_of(other.run()) != key_of(answer):
            return other
    ways: list[tuple[bool, bool, int, dict[str, Any], Start]] = []
    for option in answer["options"][:_MAX_OPTIONS]:
        for other in start.alternatives(option):
            after = other.run() if time.monotonic() < ends else answer
            if key_of(after) != key_of(answer):
                unnamed = not _is_named(option["dest"], answer["text"])
                ways.append(("type" in after, unnamed, _roundness(option), option, other))
                break
    if ways:
        *_, first, other = min(ways, key=lambda each: each[:3])
        answer["options"] = [first, *(each for each in answer["options"] if each is not first)]
        return other
    return None


def _is_named(dest: str, text: str) -> bool:
    """Whether a text has most words of an option."""
    words = {*dest.split("_")}
    return dest != WORLD and 2 * len(words & {*re.findall("[a-z]+", text.lower())}) > len(words)


def _roundness(option: dict[str, Any]) -> int:
    """How often two divides a size: the odd one is likelier a mistake."""
    value = option["values"][0] if option["values"] else ""
    if option["dest"] == WORLD:
        return _MOST_ROUND
    if not value.isdigit() or not int(value):
        return 0
    return (int(value) & -int(value)).bit_length()
