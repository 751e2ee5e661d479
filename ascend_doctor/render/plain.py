"""Text from outside, made harmless for terminals and line-based formats."""

from __future__ import annotations

import re

# C0 and C1 controls, and the Unicode controls that reorder or hide text.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)


def one_line(text: str) -> str:
    """The text on one line, every control character shown as its escape."""
    return _UNSAFE.sub(_escape, text)


def lines(text: str) -> list[str]:
    """The lines of the text, each harmless."""
    return [one_line(line) for line in text.split("\n")]


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape", "surrogatepass").decode("ascii")
