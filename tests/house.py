"""Measures the house, beside the ceilings in tests/ceilings.txt.

usage: python -m tests.house [--lower | --where MEASURE]

Measures are lines and bytes by kind of file, words of pages, the names in the code, and the prose
that users read.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests import naming
from tests.ceilings import FILE, Ceiling, lower, read_ceilings, write_ceilings
from tests.naming import ROOT, Mention
from tests.prose import SOURCES, WORDS, Prose, is_long, pages, prose, sentences, words

_FEWEST_SENTENCES = 30  # of each source of prose
_GENERATED = re.compile(
    r"^(?:\.git|\.?venv|__pycache__|build|dist|site|\.hypothesis)$|_cache$|egg-info$"
)
# Which of the tracked files each measure of lines and bytes has.
_KINDS: dict[str, Callable[[Path], bool]] = {
    "the whole repository": lambda _: True,
    "package Python": lambda path: path.parts[0] == "ascend_doctor" and path.suffix == ".py",
    "probes": lambda path: path.parts[0] == "probes" and path.suffix == ".py",
    "tests Python": lambda path: path.parts[0] == "tests" and path.suffix == ".py",
    "test data": lambda path: path.parts[0] == "tests" and path.suffix != ".py",
    "catalogues": lambda path: path.suffix == ".po",
    "matrices": lambda path: path.parts[0] == "matrices",
}


class Measure(NamedTuple):
    """A total that has a ceiling, and what is counted: mentions, or a number by file."""

    name: str
    total: int
    mentions: tuple[str, ...]


def tracked_files() -> list[Path]:
    """The files of the repository by git, or outside a checkout all that are not generated."""
    environment = {name: value for name, value in os.environ.items() if name[:4] != "GIT_"}
    git = ["git", "-C", str(ROOT), "ls-files", "-z"]
    try:
        listing = subprocess.run(git, env=environment, check=True, capture_output=True).stdout
    except (OSError, subprocess.CalledProcessError):
        listing = b""
    paths = [Path(name) for name in listing.decode().split("\0") if name]
    return [path for path in paths or walk(ROOT) if (ROOT / path).is_file()]


def walk(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if not _GENERATED.search(name)]
        yield from ((Path(folder) / name).relative_to(root) for name in files)


def by_file(name: str, counts: Counter[Path]) -> Measure:
    rows = (f"{path}: {count}" for path, count in counts.most_common())
    return Measure(name, counts.total(), tuple(rows))


def by_mention(name: str, mentions: list[Mention]) -> Measure:
    rows = (f"{path}:{line}: {text}" for text, path, line in mentions)
    return Measure(name, len(mentions), tuple(rows))


def file_measures() -> Iterator[Measure]:
    contents = {path: (ROOT / path).read_bytes() for path in tracked_files()}
    for name, belongs in _KINDS.items():
        files = {path: text for path, text in contents.items() if belongs(path)}
        lines = Counter({path: text.count(b"\n") for path, text in files.items()})
        yield by_file(f"lines of {name}", lines)
        yield by_file(
            f"bytes of {name}", Counter({path: len(text) for path, text in files.items()})
        )
    counts = {page: len(page.read_text("utf-8").split()) for page in pages()}
    yield by_file("words of README and docs", Counter(counts))


def name_measures() -> Iterator[Measure]:
    for name, mentions in naming.measure().items():
        yield by_mention(name, mentions)
    sizes = Counter({path: path.read_text("utf-8").count("\n") for path in naming.sources()})
    median = by_file("median lines of a module", sizes)
    yield median._replace(total=round(statistics.median(sizes.values())))


def prose_measures() -> Iterator[Measure]:
    texts = list(prose())
    mentions = [Mention(word, text.path, text.line) for text in texts for word in words(text.text)]
    for word in WORDS:
        yield by_mention(
            f"the word {word}", [mention for mention in mentions if mention.text == word]
        )
    for source in SOURCES:
        yield long_sentences(source, [text for text in texts if text.source == source])


def long_sentences(source: str, texts: list[Prose]) -> Measure:
    rows = [(text, sentence) for text in texts for sentence in sentences(text.text)]
    if len(rows) < _FEWEST_SENTENCES:
        raise ValueError(f"{source} has {len(rows)} sentences: its texts are not recognised")
    mentions = [
        Mention(sentence, text.path, text.line) for text, sentence in rows if is_long(sentence)
    ]
    measure = by_mention(f"sentences above 30 words in 1,000 of {source}", mentions)
    return measure._replace(total=round(1000 * len(mentions) / len(rows)))


def measures() -> list[Measure]:
    with naming.without_collection():
        return [*file_measures(), *name_measures(), *prose_measures()]


def table(rows: list[Measure], ceilings: dict[str, Ceiling]) -> Iterator[str]:
    yield f"{'total':>10} {'ceiling':>10} {'goal':>10}  measure\n"
    for row in rows:
        maximum, goal = ceilings.get(row.name, (None, None))
        cells = ("-" if cell is None else f"{cell:,}" for cell in (row.total, maximum, goal))
        yield " ".join(f"{cell:>10}" for cell in cells) + f"  {row.name}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--lower", action="store_true", help="lower the ceilings that are too high")
    action.add_argument("--where", metavar="MEASURE", help="list what a measure counts")
    arguments = parser.parse_args()
    rows = measures()
    ceilings = read_ceilings(FILE.read_text("utf-8") if FILE.exists() else "")
    if arguments.where:
        listed = [row for row in rows if arguments.where == row.name]
        if not listed:
            parser.error(f"no measure {arguments.where!r}; its name is in the last column")
        sys.stdout.write("".join(f"{mention}\n" for mention in listed[0].mentions))
        return
    if arguments.lower:
        ceilings = lower(ceilings, ((row.name, row.total) for row in rows))
        FILE.write_text(write_ceilings(ceilings), "utf-8")
    sys.stdout.write("".join(table(rows, ceilings)))


if __name__ == "__main__":
    main()
