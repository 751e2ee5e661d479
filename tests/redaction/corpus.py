"""The labelled lines: what of each has to vanish, and what has to stay."""

from __future__ import annotations

import functools
import random
import re
import string
from pathlib import Path
from typing import NamedTuple

from ascend_doctor.machine.parsing import read_yaml

HERE = Path(__file__).parent
HOST = "trainer-17.dc3.acme-train.net"
HOME = "/data1/homes/mwalker"
LOGIN = "mwalker"
_LETTERS = {
    "a": string.ascii_letters + string.digits,
    "u": string.ascii_uppercase + string.digits,
    "h": "0123456789abcdef",
    "d": string.digits,
    "b": string.ascii_letters + string.digits + "+/",
}
_MADE = re.compile(r"\{([auhdb])(\d+)\}")
_MARKED = re.compile("«(.*?)»", re.DOTALL)
# What a line break or a separator cuts has to vanish in each of its parts.
_LONG = 8
_CUT = re.compile(r"[\s.,:/@;\\]+")


class Row(NamedTuple):
    """``hidden`` must vanish from ``line``, each of ``stays`` must not."""

    line: str
    hidden: tuple[str, ...]
    stays: tuple[str, ...]


@functools.cache
def rows(file: str, kind: str) -> tuple[Row, ...]:
    """The rows of one kind, ``secrets`` or ``identities``."""
    loaded = read_yaml(HERE / file)[kind]
    return tuple(_row(one, f"{file} {kind} {number}") for number, one in enumerate(loaded))


def hidden(file: str = "hidden.yaml") -> tuple[Row, ...]:
    return (*rows(file, "secrets"), *rows(file, "identities"))


def healthy() -> tuple[str, ...]:
    loaded: list[str] = read_yaml(HERE / "healthy.yaml")
    return tuple(loaded)


def _row(given: dict[str, object], seed: str) -> Row:
    dice = random.Random(seed)
    marked = _MADE.sub(
        lambda one: "".join(dice.choices(_LETTERS[one[1]], k=int(one[2]))), str(given["line"])
    )
    named = given.get("stays")
    if isinstance(named, list):
        stays = [str(one) for one in named]
    else:  # words that touch no mark
        stays = [
            word
            for word in re.sub("«.*?»", "«»", marked, flags=re.DOTALL).split()
            if "«" not in word
        ]
    stays = [_MADE.sub("", one) for one in stays]
    return Row(marked.replace("«", "").replace("»", ""), _parts(marked), tuple(stays))


def _parts(marked: str) -> tuple[str, ...]:
    """What must be seen nowhere: the marked texts, and of long ones every piece."""
    found = []
    for text in _MARKED.findall(marked):
        pieces = [one for one in _CUT.split(text) if len(one) >= 6]
        found += [text, *pieces]
    return tuple(dict.fromkeys(found))


def shown(text: str, told: str) -> bool:
    """Short words count where they stand alone, long ones wherever they are."""
    if text not in told:
        return False
    edge = "" if len(text) >= _LONG else r"\b"
    return re.search(f"{edge}{re.escape(text)}{edge}", told) is not None


def wrong(row: Row, told: str) -> str:
    """What is wrong with what became of a row, "" where nothing is."""
    seen = [one for one in row.hidden if shown(one, told)]
    lost = [one for one in row.stays if one not in told]
    return f"{row.line!r} -> {told!r}: shows {seen}, lost {lost}" if seen or lost else ""
