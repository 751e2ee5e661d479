"""What a text that leaves for good may say: words of software and of this package, no others."""

import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path

from ascend_doctor.patterns import defer
from ascend_doctor.redact.vocabulary import is_drawn, is_hex, is_known, words_of

_PACKAGE, _ENDINGS = Path(__file__).parents[1], (".po", ".py", ".txt", ".yaml")
_RUN = r"[^\W_]+"
_ENDS = r"(?:[A-Za-z\d][\w-]*\.)+(?:cn|com|corp|edu|internal|io|lan|local|net|org)\b(?![.-]\w)"
_DOMAIN = rf"(?<![\w.-]){_ENDS}"
# Pseudonyms and addresses of memory first, which stay.
_PIECES = defer(
    rf"(?P<stays>(?:host|serial|user|word)-[\da-f]{{8}}(?![A-Za-z\d])|0x[\da-fA-F]+"
    r"|\\[abfnrtvx]|\b_{1,2}Z\w+|\blib[\w.+-]+\.so[\d.]*|\ben[ops]\d\w*)"
    rf"|(?P<escaped>(?:\\u[\da-fA-F]{{4}})+)"
    r"|(?:\b(?:account|author|company|entity|host|login|org|owner|project|team|tenant|user)"
    r"(?:_?name)?[\"']?\s*[:=]\s*[\"']?|--(?:\w+-)*(?:entity|org|project|team|user(?:name)?)[ =])"
    r"(?P<user>(?!\d[\d.]*\b)[\w.]*[_@\d-][\w.@-]*)"
    r"|\b(?P<address>(?:10|192\.168|172\.(?:1[6-9]|2\d|3[01]))(?:\.\d{1,3}){2,3})\b"
    rf"|(?P<mail>[\w.+-]+@{_ENDS})|(?P<host>{_DOMAIN}"
    rf"|(?<![A-Za-z\d-])[a-z]+\d*(?:-[a-z\d]+)+(?![\w-]))|(?P<word>{_RUN})"
)
_DATE = defer(r"20\d\d(?:0[1-9]|1[0-2])[0-3]\d(?:\d{6,})?")
_MEASURED = defer(r"(?:byte|size|mem|time|stamp|alloc|reserve|addr|offset)\w*\W*$", re.IGNORECASE)
_DECIMAL = defer(r"\d\.$")
_NODE = defer(r".*\..*|(?:[a-z]+\d*-){2,}[a-z]?\d{2,}|[a-z]+(?:-[a-z]+)*-?0\d+")
_CODE = defer(r"[A-Z]{1,4}\d{2,6}|V\d{3}R\d{3}\w*|C\d+\w*|\d+[A-Za-z]{1,3}")
_NUMBER, _STAFF, _MIXED, _HEX, _DRAWN = 10, 7, 5, 16, 8


@functools.cache
def _own() -> frozenset[str]:
    """Words, runs of letters and digits, and domains in this package's files."""
    names = set()
    for base in (_PACKAGE, _PACKAGE.parent / "matrices"):  # inside, if it was installed
        for path in base.rglob("*"):
            if path.suffix in _ENDINGS:
                text = path.read_text("utf-8")
                names |= {*re.findall(rf"{_DOMAIN}|{_RUN}", text), *re.findall(r"\w[\w-]+", text)}
    return frozenset(word.lower() for name in names for word in (name, *words_of(name)))


def unknown_pieces(text: str, allowed: frozenset[str]) -> Iterator[tuple[str, int, int]]:
    """Kind and place of what is no word of software and not ``allowed``, in the text's order."""
    for match in _PIECES.finditer(text):
        kind = match.lastgroup or ""
        name, span = match[kind].lower(), match.span(kind)
        known = kind in {"host", "user"} and name in _own()
        if known or (kind == "host" and not _NODE.fullmatch(name)):
            kind = "word"
        if kind in {"address", "host", "mail", "user"}:
            yield kind.replace("mail", "user"), *span
        elif kind == "escaped" and not _is_of_software(str(json.loads(f'"{match[0]}"'))):
            yield "word", *span
        elif kind == "word":
            for run in re.compile(_RUN).finditer(text, *span):
                before = text[max(0, run.start() - 24) : run.start()]
                stays = run[0].lower() in _own() or run[0] in allowed
                if not stays and _is_unknown(run[0], before):
                    yield "word", *run.span()


def _is_unknown(run: str, before: str) -> bool:
    if run.isdigit():
        long = len(run) >= (_STAFF if run[0] == "0" else _NUMBER)
        known = _DATE.fullmatch(run) or _MEASURED.search(before) or _DECIMAL.search(before)
        return long and not known
    if is_hex(run):
        return len(run) >= _HEX
    strange = _NODE.fullmatch(run) is not None or not all(map(_is_of_software, words_of(run)))
    drawn = is_drawn(run, _DRAWN) or sum(map(str.isdigit, run)) >= _MIXED
    return strange or (drawn and not _CODE.fullmatch(run))


def _is_of_software(word: str) -> bool:
    """No compound of two words: a name may be."""
    words = {word, word.removesuffix("s"), word.removeprefix("lib")}
    return bool(words & _own()) or (word.isascii() and any(map(is_known, words)))
