"""The spelling of what is printed; vendors' own words in the matrix stay as they are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
_PRINTED: tuple[str, ...] = ("ascend_doctor", "probes", "docs", "README.md", "CHANGELOG.md")
_PRINTED += ("CONTRIBUTING.md", "SECURITY.md")


def misspelt(*paths: str) -> str:
    command = [sys.executable, "-m", "codespell_lib", "--quiet-level", "3", *paths]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    return done.stdout + done.stderr


@pytest.mark.slow
def test_no_word_is_misspelt() -> None:
    assert misspelt(*_PRINTED) == ""


def test_a_misspelt_word_is_seen(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("This is definately wrong.\n")
    assert "definitely" in misspelt(str(tmp_path / "a.md"))
