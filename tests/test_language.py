"""The spelling of what is printed; vendors' own words in the matrix stay as they are."""

import inspect
import itertools
import re
import sys
from pathlib import Path

import pytest

from ascend_doctor.checks import all_checks
from tests.catalogue import texts
from tests.programs import run_program

ROOT = Path(__file__).parent.parent
# Written by programs, of messages and names that are read elsewhere.
_TABLES = {"remedies", "fidelity"}
_PRINTED: tuple[str, ...] = ("ascend_doctor", "probes", "docs", "README.md", "CHANGELOG.md")
_PAGES = [page for page in (ROOT / "docs").glob("*.md") if page.stem not in _TABLES]
_PAGES += [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")]
_CODE = re.compile(r"^ *```.*?^ *```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_APART = "\n\n* * *\n\n"
# Terminals and code own quotes and dots; MindSpeed says adaptor; B4 ends a chip's name.
_VENDORS = re.compile(
    r"typography\.|'(adapter|allocable)' is\s+the preferred spelling|'B4' is chatspeak"
)
_PRINTED += ("CONTRIBUTING.md", "SECURITY.md")


def misspelt(*paths: str) -> str:
    command = [sys.executable, "-m", "codespell_lib", "--quiet-level", "3", *paths]
    done = run_program(command, cwd=ROOT, check=False)
    return done.stdout + done.stderr


@pytest.mark.slow
def test_no_word_is_misspelt() -> None:
    assert misspelt(*_PRINTED) == ""


def lint_prose(text: str, folder: Path) -> list[str]:
    """proselint's findings, without those meant for terminals."""
    (folder / "text.md").write_text(text)
    command = [sys.executable, "-m", "proselint", "check", "-o", "compact", "text.md"]
    done = run_program(command, cwd=folder, check=False)
    rows = (done.stdout + done.stderr).splitlines()
    return [row for row in rows if row.startswith("text.md:") and not _VENDORS.search(row)]


@pytest.mark.slow
def test_no_message_is_bad_english(tmp_path: Path) -> None:
    messages = [*texts(), *(inspect.cleandoc(check.explain) for check in all_checks())]
    assert lint_prose(_APART.join(messages), tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.name)
def test_no_page_is_bad_english(page: Path, tmp_path: Path) -> None:
    number = itertools.count()
    text = _CODE.sub(lambda _: f"C{next(number)}", page.read_text("utf-8"))
    assert lint_prose(text, tmp_path) == []


def test_bad_english_is_seen(tmp_path: Path) -> None:
    assert "redundan" in " ".join(lint_prose("This is ATM machine, very unique.\n", tmp_path))


def test_a_misspelt_word_is_seen(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("This is definately wrong.\n")
    assert "definitely" in misspelt(str(tmp_path / "a.md"))
