"""Counts the lines of a stream that warn, however much is printed."""

import re

DISTINCT = 40
COLUMNS = 300

_WARNS = re.compile(
    rb"warning|falling back|failed (?:to import|from)|not support|end of life|deprecat",
    re.IGNORECASE,
)
# The source line that Python prints below a warning.
_ECHO = re.compile(rb"^\s*warnings\.warn\(|^\s+return func\(")
# "/path/file.py:12: UserWarning: text", without the place, which differs by machine.
_PLACE = re.compile(rb"^.{0,400}?:\d+: (?=\w*Warning: )")


class Warned:
    """How often each line came that warns; at most 40 different ones."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self._rest = b""

    def feed(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if _WARNS.search(line):
                self._count(line)
        self._rest = self._rest[-4 * COLUMNS :]

    def _count(self, line: bytes) -> None:
        if _ECHO.match(line):
            return
        text = _PLACE.sub(b"", line).decode("utf-8", "replace").strip()[:COLUMNS]
        if text in self.counts or len(self.counts) < DISTINCT:
            self.counts[text] = self.counts.get(text, 0) + 1
