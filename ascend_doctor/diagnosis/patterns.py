"""The patterns of all known failures as one automaton.

Hyperscan reads a text once, whatever the number of patterns, and cannot backtrack: the time is
linear in the text also for a pattern that a site added without care.
"""

from __future__ import annotations

import contextlib
import hashlib
import platform
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import Literal

import hyperscan

from ascend_doctor.errors import DataError
from ascend_doctor.loading import Kept
from ascend_doctor.stacks import KnownFailure

Sign = Literal["exception", "code", "result", "died", "logged", "peers", "elastic", "world"]

# What any failed run may print, known or not: Python's last line of a traceback; the error manager
# of CANN ("EI0006: ", "Name(EI0006): ", "EZ9999[PID: 1] "); torch_npu and CANN's runtime; shells,
# kernels and the C++ library; errors of glog and of CANN's plog; what
# HCCL says of other ranks; torchrun's summary; Megatron's
# first line.
SIGNS: dict[Sign, str] = {
    "exception": r"(Error|Exception|Interrupt)(\(\w+\))?(: |:?$)",
    "code": r"\bE[A-Z0-9]\d{4}(:|\)|\[PID)",
    "result": r"(error ?[cC]ode( is|:| =)|runtime result =|failed ?:) ?\d",
    "died": r"Segmentation fault|\bcore dumped|Fatal Python error|terminate called after throwing|"
    r"Signal \d+ \(SIG|\bexitcode +: -\d|Out of memory: Killed process|oom-kill|: Killed$",
    "logged": r"\[E\d{3,4} \d\d:\d\d:\d\d|\[ERROR\] [A-Z_]+\(\d",
    "peers": r"Failed to connect agent|remoteUserrank|[Rr]emote rank|Cluster Exception Location",
    "elastic": r"Root Cause \(first observed failure\)",
    "world": r"using world size: \d",
}

_LINES = hyperscan.HS_FLAG_MULTILINE
_ONCE = hyperscan.HS_FLAG_SINGLEMATCH


class Patterns:
    """What a text shows of the given failures. Raises DataError for a pattern that is none."""

    def __init__(self, failures: Iterable[KnownFailure]) -> None:
        self._names: list[tuple[str, str]] = []
        texts: list[str] = []
        for one in failures:
            for text in one.matches:
                self._names.append(("match", one.id))
                texts.append(text)
        for sign, text in SIGNS.items():
            self._names.append(("sign", sign))
            texts.append(text)
        # A carriage return ends a line as well, which Hyperscan's anchors do not know: in a block
        # they are left out, and the line alone decides.
        self._block = _compiled([text.removeprefix("^") for text in texts], _LINES, self._names)
        for one in failures:
            if one.unless:
                self._names.append(("unless", one.id))
                texts.append(one.unless)
        self._line = _compiled(texts, _ONCE, self._names)

    def places(self, block: bytes) -> list[int]:
        """Offsets in lines that may show something, in rising order."""
        found: set[int] = set()

        def on_match(_name: int, _start: int, end: int, _flags: int, _context: object) -> None:
            found.add(end)

        self._block.scan(block, match_event_handler=on_match)
        return sorted(found)

    def judge(self, line: bytes) -> tuple[set[str], set[str]]:
        """Ids of the failures that a line shows, and its signs."""
        found: list[int] = []

        def on_match(name: int, _start: int, _end: int, _flags: int, _context: object) -> None:
            found.append(name)

        self._line.scan(line, match_event_handler=on_match)
        kinds: dict[str, set[str]] = {"match": set(), "unless": set(), "sign": set()}
        for number in found:
            kind, name = self._names[number]
            kinds[kind].add(name)
        return kinds["match"] - kinds["unless"], kinds["sign"]


def _compiled(
    texts: Sequence[str], flags: int, names: Sequence[tuple[str, str]]
) -> hyperscan.Database:
    """The automaton, from the user's cache where it was made before: that takes a thousandth."""
    told = "\0".join((version("hyperscan"), platform.machine(), str(flags), *texts))
    digest = hashlib.blake2b(told.encode(), digest_size=12).hexdigest()
    kept = Kept.named("patterns", digest)
    if isinstance(known := kept.get(), bytes):
        with contextlib.suppress(hyperscan.error):
            database = hyperscan.loadb(known, hyperscan.HS_MODE_BLOCK)
            database.scratch = hyperscan.Scratch(database)
            # One that was made for another processor, in a home that is shared, says so here.
            database.scan(b" ", match_event_handler=lambda *_: None)
            return database
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    try:
        _compile(database, texts, flags)
    except hyperscan.error:
        for text, (_, name) in zip(texts, names, strict=True):
            _tried(text, flags, name)
        raise
    kept.put(hyperscan.dumpb(database))
    return database


def _tried(text: str, flags: int, name: str) -> None:
    try:
        _compile(hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK), [text], flags)
    except hyperscan.error as error:
        raise DataError(f"failure {name}: the pattern {text!r} cannot be used: {error}") from error


def _compile(database: hyperscan.Database, texts: Sequence[str], flags: int) -> None:
    database.compile(
        expressions=[text.encode() for text in texts],
        ids=list(range(len(texts))),
        flags=[flags] * len(texts),
    )
