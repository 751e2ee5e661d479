"""Generates the words that software knows, by which `redact` tells names from words.

    python -m tests.vocabulary

It reads installed packages: those of the extras `test` and `rehearsal`, and what `pip install
--no-deps zxcvbn transformers accelerate peft datasets trl` brings. Words are from identifiers and
prose of Python sources, symbols of torch_npu's library, codespell, zxcvbn's frequent words, and
this repository's matrices and pages; they count if several files or packages have them. Comments,
strings of code and tests are left out: people are named there.
"""

import re
import sys
import sysconfig
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from zxcvbn.frequency_lists import FREQUENCY_LISTS  # type: ignore[import-untyped,unused-ignore]

from ascend_doctor.redact.allowlist import own_words
from ascend_doctor.redact.vocabulary import FILE, LEAST_LETTERS, STRICT_FILE, bits_of, words_of
from tests.naming import ROOT

_BITS_PER_WORD = 11, 14  # 1 of 190 strange words passes, of 800
_LEAST_FILES, _LEAST_PACKAGES = 3, 3
_STRICT_PACKAGES, _STRICT_PROSE = 8, 12
_NAMES = ("female_names", "male_names")
_FREQUENT = 12_000  # of so many ranks
_LIBRARY = 1 << 28
_STRINGS = re.compile(r"([\"']{3})(.*?)\1|\"[^\"\n]*\"|'[^'\n]*'|#[^\n]*", re.DOTALL)
_SKIPPED = re.compile(r"(?:^|/)(?:tests?|testing|_vendor|examples?)/|/test_|/conftest|_pb2")


def python_sources() -> Iterator[tuple[str, Path]]:
    for folder in {sysconfig.get_path("purelib"), sysconfig.get_path("stdlib")}:
        for path in sorted(Path(folder).rglob("*.py")):
            name = path.relative_to(folder).as_posix()
            if not _SKIPPED.search(name) and "site-packages" not in name:
                yield name.partition("/")[0], path


def known_words() -> tuple[set[str], set[str]]:
    """And usual ones."""
    files: dict[str, int] = defaultdict(int)
    packages: dict[str, set[str]] = defaultdict(set)
    namers: dict[str, set[str]] = defaultdict(set)
    for package, path in python_sources():
        source = path.read_text("utf-8", "replace")
        for word in set(words_of(_STRINGS.sub(" ", source))):
            files[word] += 1
            namers[word].add(package)
        prose = " ".join(match[2] for match in _STRINGS.finditer(source) if match[2])
        for word in set(re.findall(r"(?<![\w@.-])[a-z]{3,}(?![\w@-])", prose)):
            packages[word].add(package)
    known = {word for word, count in files.items() if count >= _LEAST_FILES}
    known |= {word for word, where in packages.items() if len(where) >= _LEAST_PACKAGES}
    usual = {word for word, where in namers.items() if len(where) >= _STRICT_PACKAGES}
    usual |= {word for word, where in packages.items() if len(where) >= _STRICT_PROSE}
    usual = (usual | set(symbols())) - set(names(*_NAMES, "surnames")) - own_words()
    known -= set(names(*_NAMES)) - set(spellings())
    return known | set(frequent()) | set(spellings()) | set(symbols()) | set(own()), usual


def spellings() -> Iterator[str]:
    purelib = Path(sysconfig.get_path("purelib"))
    for line in (purelib / "codespell_lib/data/dictionary.txt").read_text("utf-8").splitlines():
        yield from words_of(line.partition("->")[2])


def frequent() -> Iterator[str]:
    """Each list lacks what is more frequent in another."""
    for kind in ("english_wikipedia", "us_tv_and_film"):
        yield from FREQUENCY_LISTS[kind][:_FREQUENT]


def names(*kinds: str) -> Iterator[str]:
    for kind in kinds:
        yield from FREQUENCY_LISTS[kind]


def symbols() -> Iterator[str]:
    counts: dict[str, int] = defaultdict(int)
    purelib = Path(sysconfig.get_path("purelib"))
    with (purelib / "torch_npu/lib/libtorch_npu.so").open("rb") as file:
        data = file.read(_LIBRARY)
    for text in re.findall(rb"[A-Za-z][\w ./:-]{7,60}", data):
        for word in set(words_of(text.decode())):
            counts[word] += 1
    return (word for word, count in counts.items() if count >= 8)  # fewer are noise


def own() -> Iterator[str]:
    for path in (*(ROOT / "matrices").rglob("*.yaml"), *(ROOT / "docs").glob("*.md")):
        yield from words_of(path.read_text("utf-8"))


def main() -> None:
    for file, words, bits in zip((FILE, STRICT_FILE), known_words(), _BITS_PER_WORD, strict=True):
        known = sorted(word for word in words if len(word) >= LEAST_LETTERS)
        size = len(known) * bits // 8
        table = bytearray(size)
        for word in known:
            for bit in bits_of(word, size):
                table[bit >> 3] |= 1 << (bit & 7)
        file.write_bytes(table)
        print(f"{file.name}: {len(known)} words, {size} bytes", file=sys.stderr)  # noqa: T201


if __name__ == "__main__":
    main()
