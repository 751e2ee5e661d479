"""The prose that users read, measured by source: README, docs, help, findings.

The findings are all texts of the code and the matrices other than help: titles, requirements,
causes, remedies, and the pages of ``explain``.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from docs.paragraphs import paragraphs
from tests.catalogue import texts

ROOT = Path(__file__).parent.parent
SOURCES = ("README", "docs", "help", "findings")
WORDS = {
    "told": r"told",
    "tells": r"tells",
    "nobody": r"nobody",
    "stands": r"stands",
    "stood": r"stood",
    "whom": r"whom",
    "is no": r"is no(?! longer)",
    "so that": r"so that",
    "mend": r"mend(?:s|ed|ing)?",
    "wish": r"wish(?:es|ed|ing)?",
    "thereof": r"thereof",
    "of its own": r"of its own",
}
LONGEST_SENTENCE = 30  # words
_HELP = re.compile(r"ascend_doctor/(?:cli|commands/[\w/]+)\.py")  # messages have a line, too
_CODE = re.compile(r"`[^`]*`")
_LINK = re.compile(r"\]\([^)]*\)")
_END = re.compile(r"(?<=[.!?])[)\"']*\s+(?=[A-Z`\"'(\d])|\n\n")


class Prose(NamedTuple):
    source: str
    text: str
    path: Path
    line: int


def pages() -> Iterator[Path]:
    yield ROOT / "README.md"
    for page in sorted((ROOT / "docs").rglob("*.md")):
        if "records" not in page.relative_to(ROOT).parts:
            yield page


def prose() -> Iterator[Prose]:
    for page in pages():
        path = page.relative_to(ROOT)
        source = "README" if path.stem == "README" else "docs"
        for part in paragraphs(page.read_text("utf-8")):
            yield Prose(source, part.text, path, part.begin + 1)
    for text, origins in texts().items():
        source = "help" if any(map(_HELP.fullmatch, origins)) else "findings"
        name, _, line = origins[0].partition(":")
        yield Prose(source, text, Path(name), int(line or 1))


def sentences(text: str) -> list[str]:
    bare = _LINK.sub("]", _CODE.sub("Code", text))
    return [sentence for sentence in _END.split(bare) if sentence.strip()]


def is_long(sentence: str) -> bool:
    return len(re.findall(r"[^\W_]\S*", sentence)) > LONGEST_SENTENCE


def words(text: str) -> list[str]:
    bare = " ".join(_CODE.sub("Code", text).split())
    return [
        word
        for word, form in WORDS.items()
        for _ in re.findall(rf"\b{form}\b", bare, re.IGNORECASE)
    ]
