"""The patterns of all known failures as one automaton.

Hyperscan reads a text once, whatever the number of patterns, and cannot backtrack: the time is
linear in the text also for a pattern that a site added without care.
"""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Iterable, Sequence
from importlib.metadata import version

import hyperscan

from ascend_doctor.diagnosis.signs import COMMON, SIGNS, Sign
from ascend_doctor.errors import DataError
from ascend_doctor.matrix.loading import CacheEntry
from ascend_doctor.matrix.schema import KnownFailure

_LINES = hyperscan.HS_FLAG_MULTILINE
_ONCE = hyperscan.HS_FLAG_SINGLEMATCH


class Patterns:
    """What a text shows of the given failures. Raises DataError for a pattern that is none."""

    def __init__(self, failures: Iterable[KnownFailure]) -> None:
        self._names: list[tuple[str, str]] = []
        texts: list[str] = []
        for failure in failures:
            for text in failure.matches:
                self._names.append(("match", failure.id))
                texts.append(text)
        for sign, text in SIGNS.items():
            self._names.append(("sign", sign))
            texts.append(text)
        # A carriage return ends a line as well, which Hyperscan's anchors do not know: in a block
        # they are left out, and the line alone decides.
        self._texts = [text.removeprefix("^") for text in texts]
        self._common = {self._names.index(("sign", sign)) for sign in COMMON}
        self._others: dict[frozenset[Sign], hyperscan.Database] = {}
        self._block = _load_or_compile(self._texts, _LINES, self._names)
        for failure in failures:
            if failure.unless:
                self._names.append(("unless", failure.id))
                texts.append(failure.unless)
        self._line = _load_or_compile(texts, _ONCE, self._names)

    def places(self, block: bytes) -> tuple[set[int], set[int]]:
        """Offsets in lines that may show something: something of its own, or a common sign."""
        own: set[int] = set()
        common: set[int] = set()

        def on_match(name: int, _start: int, end: int, _flags: int, _context: object) -> None:
            (common if name in self._common else own).add(end)

        self._block.scan(block, match_event_handler=on_match)
        return own, common

    def places_without(self, signs: frozenset[Sign], block: bytes) -> set[int]:
        """Offsets of everything but these signs; for logs that are full of them."""
        if signs not in self._others:
            left = [
                (text, name)
                for text, name in zip(self._texts, self._names, strict=False)
                if name not in {("sign", sign) for sign in signs}
            ]
            self._others[signs] = _load_or_compile(
                [text for text, _ in left], _LINES, [name for _, name in left]
            )
        ends: set[int] = set()

        def on_match(_name: int, _start: int, end: int, _flags: int, _context: object) -> None:
            ends.add(end)

        self._others[signs].scan(block, match_event_handler=on_match)
        return ends

    def judge(self, line: bytes) -> tuple[set[str], set[str]]:
        """Ids of the failures that a line shows, and its signs."""
        numbers: list[int] = []

        def on_match(name: int, _start: int, _end: int, _flags: int, _context: object) -> None:
            numbers.append(name)

        self._line.scan(line, match_event_handler=on_match)
        kinds: dict[str, set[str]] = {"match": set(), "unless": set(), "sign": set()}
        for number in numbers:
            kind, name = self._names[number]
            kinds[kind].add(name)
        return kinds["match"] - kinds["unless"], kinds["sign"]


def _load_or_compile(
    texts: Sequence[str], flags: int, names: Sequence[tuple[str, str]]
) -> hyperscan.Database:
    """The automaton, from the user's cache where it was made before: that takes a thousandth."""
    key_text = "\0".join((version("hyperscan"), platform.machine(), str(flags), *texts))
    cached = CacheEntry.of("patterns", key_text.encode())
    if isinstance(known := cached.get(), bytes):
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
            _try(text, flags, name)
        raise
    cached.put(hyperscan.dumpb(database))
    return database


def _try(text: str, flags: int, name: str) -> None:
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
