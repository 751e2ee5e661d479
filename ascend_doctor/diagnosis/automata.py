"""Many patterns searched for at once, by Hyperscan.

It reads a text once, whatever the number of patterns, and cannot backtrack: the time is linear in
the text also for a pattern that a site added without care.
"""

import contextlib
import platform
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import Literal

from ascend_doctor.errors import DataError
from ascend_doctor.matrix.loading import CacheEntry

try:
    import hyperscan
except ImportError:
    hyperscan = None  # type: ignore[assignment]

# Every match in a block of lines; which patterns match in a block; which do in a line alone.
Mode = Literal["block", "kinds", "line"]
# The kind of a pattern of which every match counts, also where others are told once.
CODES = "codes"


class Automaton:
    """All patterns; the user's cache keeps compiled ones, which load in a thousandth of the time.

    ``names``: (kind, id) by pattern. Raises DataError for an invalid pattern, or without Hyperscan.
    """

    def __init__(
        self, texts: Sequence[str], names: Sequence[tuple[str, str]], *, mode: Mode
    ) -> None:
        if hyperscan is None:
            raise DataError(
                "hyperscan, which searches logs, cannot be imported; "
                f"`{sys.executable} -m pip install --force-reinstall hyperscan` installs it again"
            )
        once = hyperscan.HS_FLAG_SINGLEMATCH if mode != "block" else 0
        both = hyperscan.HS_FLAG_MULTILINE if mode != "line" else 0
        flags = [both | (once if kind != CODES else 0) for kind, _ in names]
        self._database = _load_or_compile(texts, flags, names)

    def scan(self, text: bytes) -> Iterator[tuple[int, int]]:
        """Numbers of the patterns that match, each with the end offset of a match."""
        matches: list[tuple[int, int]] = []

        def on_match(name: int, _start: int, end: int, _flags: int, _context: object) -> None:
            matches.append((name, end))

        self._database.scan(text, match_event_handler=on_match)
        return iter(matches)


def _load_or_compile(
    texts: Sequence[str], flags: Sequence[int], names: Sequence[tuple[str, str]]
) -> hyperscan.Database:
    key_text = "\0".join((version("hyperscan"), platform.machine(), str(flags), *texts))
    cached = CacheEntry.of("patterns", key_text.encode())
    if isinstance(known := cached.get(), bytes):
        with contextlib.suppress(hyperscan.error):
            database = hyperscan.loadb(known, hyperscan.HS_MODE_BLOCK)
            database.scratch = hyperscan.Scratch(database)
            # One made for another processor, in a shared home, says so here.
            database.scan(b" ", match_event_handler=lambda *_: None)
            return database
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    try:
        _compile(database, texts, flags)
    except hyperscan.error:
        for text, flag, (_, name) in zip(texts, flags, names, strict=True):
            _try(text, flag, name)
        raise
    cached.put(hyperscan.dumpb(database))
    return database


def _try(text: str, flags: int, name: str) -> None:
    try:
        _compile(hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK), [text], [flags])
    except hyperscan.error as error:
        raise DataError(f"failure {name}: the pattern {text!r} cannot be used: {error}") from error


def _compile(database: hyperscan.Database, texts: Sequence[str], flags: Sequence[int]) -> None:
    database.compile(
        expressions=[text.encode() for text in texts],
        ids=list(range(len(texts))),
        flags=list(flags),
    )
