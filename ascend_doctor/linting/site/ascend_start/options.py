"""Options of a command as its own parser reads them, with the numbers of their words."""

from __future__ import annotations

import argparse
import dataclasses
import re
from typing import Any, NamedTuple

# A part of a value that only the running shell knows.
UNTOLD = "\ufffc"
# Before a key of a configuration file.
SETTING = "\x1f"
# Before a key: of Hydra, and of a configuration file.
_MARKS = f"+~{SETTING}"
_STAND_IN = "unknown"
_OVERRIDE = re.compile(r"[^-=]+=")
_REST = argparse.REMAINDER


class CommandWord(NamedTuple):
    """``at`` is the word's number in the command, -1 for an added one."""

    text: str
    at: int


@dataclasses.dataclass
class ReadOption:
    """``places`` are the numbers of an option's words.

    ``extra`` are those of later words that it does not take; ``kind`` is the name of its type.
    """

    dest: str
    typed: str
    values: list[str]
    places: list[int]
    extra: list[int] = dataclasses.field(default_factory=list)
    choices: list[str] = dataclasses.field(default_factory=list)
    kind: str = ""


class ParserRefusal(Exception):  # noqa: N818 - what it is
    """What argparse ends a program with."""

    def __init__(self, parser: argparse.ArgumentParser, text: str) -> None:
        super().__init__(text)
        self.parser = parser


def refuse(parser: argparse.ArgumentParser, message: str) -> None:
    """In place of ``ArgumentParser.error``."""
    raise ParserRefusal(parser, message)


def read_options(words: list[CommandWord], parser: Any) -> dict[str, ReadOption]:
    known = parser._option_string_actions
    by_dest: dict[str, ReadOption] = {}
    number = 0
    while number < len(words):
        start = number
        number += 1
        typed, equals, value = words[start].text.partition("=")
        if not _is_option(words[start].text, known):
            continue
        while number < len(words) and not _is_option(words[number].text, known):
            number += 1
        action = _action_of(typed, known) if parser.allow_abbrev else known.get(typed)
        taken = start + 1 + (max(_most_values(action) - bool(equals), 0) if action else number)
        own, rest = words[start : min(taken, number)], words[min(taken, number) : number]
        values = [*([value] if equals else []), *(word.text for word in own[1:])]
        dest = action.dest if action else typed.lstrip("-").replace("-", "_")
        option = ReadOption(dest, typed, values, [w.at for w in own])
        option.extra = [word.at for word in rest] if action else option.places
        if action is not None:
            option.choices = [str(choice) for choice in action.choices or ()]
            option.kind = getattr(action.type, "__name__", "") if action.type else ""
        by_dest[option.dest] = option
    return by_dest


def divide(
    words: list[CommandWord], *, overrides: bool = False
) -> tuple[list[CommandWord], list[CommandWord]]:
    """The words of the command, and the settings key.key=value; ``overrides``: typed ones too."""
    settings = [
        word
        for word in words
        if word.text.startswith(SETTING) or (overrides and _OVERRIDE.match(word.text))
    ]
    return [word for word in words if word not in settings], settings


def last_key(text: str) -> str:
    """The last name of a key; numbers are those of a list."""
    parts = text.partition("=")[0].lstrip(_MARKS).split(".")
    return next((part for part in reversed(parts) if not part.isdigit()), parts[-1])


def read_settings(settings: list[CommandWord], text: str = "") -> dict[str, ReadOption]:
    """Settings by their keys and parts of these: first those with a value in a text."""
    by_part: dict[str, ReadOption] = {}
    by_key: dict[str, ReadOption] = {}
    by_name: dict[str, ReadOption] = {}
    named = [word for word in settings if word.text.partition("=")[2].strip('"') in text]
    for word in [*named, *settings]:
        key, _, value = word.text.partition("=")
        option = ReadOption(key.lstrip(_MARKS), f"{key}=", [value], [word.at])
        by_name.setdefault(last_key(key), by_key.setdefault(option.dest, option))
        for part in option.dest.split("."):
            if "_" in part and part in text:
                by_part.setdefault(part, option)
    return {**by_part, **by_key, **by_name}


def _is_option(text: str, known: Any) -> bool:
    return text.startswith("--") or (text.startswith("-") and text in known)


def _action_of(typed: str, known: Any) -> Any:
    """The action of a name or its beginning; None if it is not exactly one."""
    names = [typed] if typed in known else [name for name in known if name.startswith(typed)]
    actions = {id(known[name]): known[name] for name in names}
    return next(iter(actions.values())) if len(actions) == 1 else None


def _most_values(action: Any) -> int:
    if action.nargs in ("*", "+", _REST):
        return 1 << 20
    return action.nargs if isinstance(action.nargs, int) else 1


def fill_unknown(
    words: list[CommandWord], parser: Any, *, any_text: bool = True
) -> tuple[list[CommandWord], list[str]]:
    """Words without unknown values, and their options.

    Texts get a stand-in, or with not ``any_text`` only words that no option takes.
    """
    unknown = []
    gone = set()
    for option in read_options(words, parser).values():
        own = set(option.places)
        texts = [word.text for word in words if word.at in own]
        if UNTOLD not in "".join(texts):
            continue
        unknown.append(option.dest)
        takes_text = any_text and option.kind in ("", "str") and not option.choices
        if not takes_text or UNTOLD in option.typed:
            gone |= own
    extra = {number for option in read_options(words, parser).values() for number in option.extra}
    left = [
        word
        for word in words
        if word.at not in gone and not (any_text and word.at in extra and UNTOLD in word.text)
    ]
    return [CommandWord(word.text.replace(UNTOLD, _STAND_IN), word.at) for word in left], unknown


def without_unknown(words: list[CommandWord]) -> list[str]:
    """Texts of words, without options whose values only the shell knows."""
    texts: list[str] = []
    for word in words:
        if UNTOLD not in word.text:
            texts.append(word.text)
        elif texts and texts[-1].startswith("--"):
            texts.pop()
    return texts


def options_refused(refusal: ParserRefusal, words: list[CommandWord]) -> list[ReadOption]:
    """Options that argparse complains of; for words it does not take, the option before."""
    text = str(refusal)
    by_dest = read_options(words, refusal.parser).values()
    left = re.match(r"unrecognized arguments: (.*)", text, re.DOTALL)
    if left:
        texts = {word.at: word.text for word in words}
        gone = left.group(1).split()
        for option in by_dest:
            option.extra = [at for at in option.extra if set(texts[at].split()) <= set(gone)]
        return [_only_extra(option, texts) for option in by_dest if option.extra]
    named = re.match(r"argument ([^:]+):", text)
    typed = set(named.group(1).split("/")) if named else set(re.findall(r"--[\w-]+", text)[:1])
    actions = refusal.parser._option_string_actions
    return [
        option
        for option in by_dest
        if option.typed in typed
        or any(name in typed and actions[name].dest == option.dest for name in actions)
    ]


def _only_extra(option: ReadOption, texts: dict[int, str]) -> ReadOption:
    if option.extra != option.places:
        option.dest = "extra " + option.dest
        option.values += [texts[at] for at in option.extra]
    option.places = option.extra
    return option
