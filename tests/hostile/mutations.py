"""Breaks files: as bytes, as trees, and by a list of what is known to hurt readers."""

import copy
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import yaml

HOSTILE = (
    "\x1b]0;x\x07\x1b[2J<script>alert(1)</script>\"'`@all](javascript:x)|\r\n"
    "::error file=x::pwn%0A\n::set-output name=a::b\n##[error]x\n##vso[task]y\u202e\x9b2J"
)
_PIECES = (
    b"\x00",
    b"\xff\xfe",
    b"\x1b[2J",
    b"\xe2\x80\xae",
    b"\n::set-output name=a::b\n",
    b"]]]]",
    b"[[[[",
    b"{{{{",
    b"&a *a",
    b"'\"`$(x)",
    b"\r",
    b"!!python/object/apply:os.system [id]",
    b"1e999",
    b"-1",
    b"9" * 400,
)
_VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 2**63, 10**400, 1e308, float("inf"), float("nan")),
    *(
        "",
        " ",
        "-",
        "--help",
        "\x00",
        "../../etc/passwd",
        "/dev/zero",
        "/",
        "~",
        HOSTILE,
        "a" * 100_000,
    ),
    *([], {}, [[]], [None], {"": ""}, [{}] * 300, "2026-02-30T00:00:00+00:00", "9" * 5000),
    *(
        "-p --upload-pack=x",
        "https://[",
        "\ud800",
        "\N{RIGHT-TO-LEFT OVERRIDE}",
        "1.2.3.4.5.6",
        "==1",
    ),
)
Dump = Callable[[Any], bytes]


def as_json(value: Any) -> bytes:
    return json.dumps(value).encode("utf-8", "surrogatepass")


def as_yaml(value: Any) -> bytes:
    return yaml.dump(value, Dumper=yaml.CSafeDumper).encode("utf-8", "surrogatepass")


def as_bytes(data: bytes, number: int, seed: str) -> Iterator[bytes]:
    """One to five places changed."""
    dice = random.Random(seed)
    for _ in range(number):
        content = bytearray(data)
        for _ in range(dice.randint(1, 5)):
            at = dice.randrange(len(content) + 1)
            size = min(dice.choice((1, 4, 64, 1000)), len(content) - at)
            match dice.randrange(5):
                case 0:
                    del content[at : at + size]
                case 1:
                    content[at:at] = dice.choice(_PIECES)
                case 2:
                    content[at : at + size] = dice.randbytes(size)
                case 3:
                    content[at:at] = content[at : at + size] * dice.randint(1, 9)
                case _:
                    del content[at:]
        yield bytes(content)


def as_tree(value: Any, dump: Dump, number: int, seed: str) -> Iterator[bytes]:
    """One to three values, keys or branches changed; the form stays valid."""
    dice = random.Random(seed)
    made = 0
    while made < number:
        copied = copy.deepcopy(value)
        for _ in range(dice.randint(1, 3)):
            copied = _change(copied, dice)
        try:
            text = dump(copied)
        except (yaml.YAMLError, UnicodeError, TypeError, RecursionError):
            continue  # what the form itself cannot hold
        made += 1
        yield text


def _change(value: Any, dice: random.Random) -> Any:
    if isinstance(value, dict | list) and value and dice.random() < 0.9:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = dice.choice(keys)
        match dice.randrange(8):
            case 0:
                del value[key]
            case 1 if isinstance(value, dict):
                value[HOSTILE if dice.random() < 0.5 else "unknown"] = value.pop(key)
            case 2 if isinstance(value, list):
                value += value[:50]
            case _:
                value[key] = _change(value[key], dice)
        return value
    return copy.deepcopy(dice.choice(_VALUES))


def everywhere(value: Any, text: str = HOSTILE) -> Any:
    """Every text of a tree ends in a hostile one."""
    if isinstance(value, str):
        return value + text
    if isinstance(value, dict):
        return {key: everywhere(inner, text) for key, inner in value.items()}
    if isinstance(value, list):
        return [everywhere(inner, text) for inner in value]
    return value


def by_hand(*, deep: int = 100_000) -> Iterator[tuple[str, bytes]]:
    """What hurt readers before; names say what it is."""
    yield "empty", b""
    yield "blank", b" \n\t\n"
    yield "nul", b"\x00" * 1000
    yield "latin", b"\xe9\xff caf\xe9: \x80"
    yield "utf-16", "schema: 1\n".encode("utf-16")
    yield "bom", b"\xef\xbb\xbf{}"
    yield "number", b"17"
    yield "list", b"[]"
    yield "text", b'"x"'
    yield "null", b"null"
    yield "huge number", b'{"schema": ' + b"9" * 10_000 + b"}"
    yield "long line", b'{"schema": 1, "x": "' + b"a" * 3_000_000 + b'"}'
    yield "deep lists", b"[" * deep + b"]" * deep
    yield "deep mappings", b'{"a":' * deep + b"1" + b"}" * deep
    yield "deep and open", b"[" * deep
    yield "deep in a snapshot", b'{"schema": 1, "probes": ' + b"[" * deep + b"]" * deep + b"}"
    yield "deep blocks", "".join(" " * n + "-\n" for n in range(1500)).encode()
    yield "aliases", _aliases()
    yield "merge keys", _merge_keys()
    yield "own tag", b"!!python/object/apply:os.system ['touch owned']"
    yield "unknown tag", b"!x {a: b}"
    yield "two documents", b"a: 1\n---\nb: 2\n"
    yield "same key twice", b'{"schema": 1, "schema": 2}'
    yield "cut", b'{"schema": 1, "host": {"na'


def _aliases() -> bytes:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    return "\n".join(rows).encode()


def _merge_keys() -> bytes:
    rows = ["a0: &a0 {x: 1}"]
    rows += [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}" for n in range(1, 12)]
    return "\n".join(rows).encode()
