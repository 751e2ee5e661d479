"""What a text that leaves for good may say: words of software and of this package, no others."""

import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path

from ascend_doctor.matrix.catalog import folder
from ascend_doctor.patterns import defer
from ascend_doctor.redact.vocabulary import is_drawn, is_hex, is_known, words_of

_ENDINGS = (".po", ".py", ".txt", ".yaml")
_RUN = r"[^\W_]+"
_ENDS = r"(?:[A-Za-z\d][\w-]*\.)+(?:cn|com|corp|edu|internal|io|lan|local|net|org)\b(?![.-]\w)"
_DOMAIN = rf"(?<![\w.-]){_ENDS}"
# Pseudonyms and addresses of memory first, which stay.
_PIECES = defer(
    rf"(?P<stays>(?:host|serial|user|word)-[\da-f]{{8}}(?![A-Za-z\d])|0x[\da-fA-F]+"
    r"|\\[abfnrtvx]|\b_{1,2}Z\w+|\ben[ops]\d\w*)"
    rf"|(?P<escaped>(?:\\u[\da-fA-F]{{4}})+)"
    r"|(?:\b(?:account|author|company|entity|host|login|org|owner|project|team|tenant|user)"
    r"(?:_?name)?[\"']?\s*[:=]\s*[\"']?|--(?:\w+-)*(?:entity|org|project|team|user(?:name)?)[ =])"
    r"(?P<user>[\w.]*[_@\d-][\w.@-]*)"
    r"|\b(?P<address>(?:10|192\.168|172\.(?:1[6-9]|2\d|3[01]))(?:\.\d{1,3}){2,3})\b"
    rf"|(?P<mail>[\w.+-]+@{_ENDS})|(?P<host>{_DOMAIN}"
    rf"|(?<![A-Za-z\d-])[a-z]+\d*(?:-[a-z\d]+)+(?![\w-]))|(?P<word>{_RUN})"
)
_DATE = defer(r"20\d\d(?:0[1-9]|1[0-2])[0-3]\d(?:\d{6,})?")
_MEASURED = defer(r"(?:byte|size|mem|time|stamp|alloc|reserve|addr|offset)\w*\W*$", re.IGNORECASE)
_NODE = defer(r"(?:[a-z]+\d*-){2,}[a-z]?\d{2,}|[a-z]+(?:-[a-z]+)*-?0\d+")
_CODE = defer(r"[A-Z]{1,4}\d{2,6}|V\d{3}R\d{3}\w*|C\d+\w*")
_NUMBER, _STAFF, _MIXED, _HEX, _DRAWN = 8, 7, 5, 16, 8


@functools.cache
def _own() -> frozenset[str]:
    """Words, runs of letters and digits, and domains in this package's files."""
    names = set()
    for base in (Path(__file__).parents[1], folder("matrices")):
        for path in base.rglob("*"):
            if path.suffix in _ENDINGS:
                text = path.read_text("utf-8")
                names |= {*re.findall(rf"{_DOMAIN}|{_RUN}", text), *re.findall(r"\w[\w-]+", text)}
    return frozenset(word.lower() for name in names for word in (name, *words_of(name)))


def unknown_pieces(text: str, known: frozenset[str]) -> Iterator[tuple[str, int, int]]:
    """Kind and place of what is no word of software and not ``known``, in the order of the text."""
    for match in _PIECES.finditer(text):
        kind = match.lastgroup or ""
        span = match.span(kind) if kind else match.span()
        if kind == "user" and match[kind].lower() in _own():
            continue
        if kind in {"address", "user", "mail"} or (kind == "host" and _is_host(match[0])):
            yield kind.replace("mail", "user"), *span
        elif kind == "escaped" and not _is_of_software(str(json.loads(f'"{match[0]}"'))):
            yield "word", *span
        elif kind in {"word", "host"}:
            for run in re.compile(_RUN).finditer(text, *span):
                before = text[max(0, run.start() - 24) : run.start()]
                if run[0] not in known and _is_unknown(run[0], before):
                    yield "word", *run.span()


def _is_host(name: str) -> bool:
    return name.lower() not in _own() and ("." in name or _NODE.fullmatch(name) is not None)


def _is_unknown(run: str, before: str) -> bool:
    if run.lower() in _own():
        return False
    if run.isdigit():
        long = len(run) >= (_STAFF if run[0] == "0" else _NUMBER)
        return long and not _DATE.fullmatch(run) and not _MEASURED.search(before)
    if _NODE.fullmatch(run) or not all(map(_is_of_software, words_of(run))):
        return True
    drawn = is_drawn(run, _DRAWN) or sum(map(str.isdigit, run)) >= _MIXED
    return len(run) >= _HEX if is_hex(run) else not _CODE.fullmatch(run) and drawn


def _is_of_software(word: str) -> bool:
    """No compound of two words: a name may be."""
    words = {word, word.removesuffix("s"), word.removeprefix("lib")}
    return bool(words & _own()) or (word.isascii() and any(map(is_known, words)))
