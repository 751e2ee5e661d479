"""The labelled lines: what of each has to vanish, and what has to stay."""

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
    "l": string.ascii_lowercase + string.digits,
    "b": string.ascii_letters + string.digits + "+/",
}
_MADE = re.compile(r"\{([auhdbl])(\d+)\}")
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
    loaded = read_yaml(HERE / file)[kind]
    return tuple(_row(row, f"{file} {kind} {number}") for number, row in enumerate(loaded))


def hidden(file: str = "hidden.yaml") -> tuple[Row, ...]:
    return (*rows(file, "secrets"), *rows(file, "identities"))


def healthy() -> tuple[str, ...]:
    loaded: list[str] = read_yaml(HERE / "healthy.yaml")
    return tuple(loaded)


def made(text: str, dice: random.Random) -> str:
    return _MADE.sub(lambda match: "".join(dice.choices(_LETTERS[match[1]], k=int(match[2]))), text)


def _row(fields: dict[str, object], seed: str) -> Row:
    dice = random.Random(seed)
    marked = made(str(fields["line"]), dice)
    named = fields.get("stays")
    if isinstance(named, list):
        stays = [str(word) for word in named]
    else:  # words that touch no mark
        stays = [
            word
            for word in re.sub("«.*?»", "«»", marked, flags=re.DOTALL).split()
            if "«" not in word
        ]
    stays = [_MADE.sub("", word) for word in stays]
    return Row(marked.replace("«", "").replace("»", ""), _parts(marked), tuple(stays))


def _parts(marked: str) -> tuple[str, ...]:
    """Texts to hide: the marked ones, and every piece of long ones."""
    texts = []
    for text in _MARKED.findall(marked):
        pieces = [piece for piece in _CUT.split(text) if len(piece) >= 6]
        texts += [text, *pieces]
    return tuple(dict.fromkeys(texts))


def shows(text: str, output: str) -> bool:
    """Short words count alone, long ones anywhere."""
    if text not in output:
        return False
    edge = "" if len(text) >= _LONG else r"\b"
    return re.search(f"{edge}{re.escape(text)}{edge}", output) is not None


def wrong(row: Row, output: str) -> str:
    seen = [secret for secret in row.hidden if shows(secret, output)]
    lost = [word for word in row.stays if word not in output]
    return f"{row.line!r} -> {output!r}: shows {seen}, lost {lost}" if seen or lost else ""
