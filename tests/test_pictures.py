"""Pictures of the documentation show what terminals show today, and ask nobody for anything."""

import html
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from tests.programs import load_module

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "pictures"
_STYLE = re.compile(r"\x1b\[[\d;]*m|\x1b\]8;;.*?\x1b\\|\x1b\(B|\x0f")


def _script() -> Any:
    return load_module(ROOT / "docs" / "picture.py", "picture")


PICTURE = _script()
NAMES = list(PICTURE.PICTURES)


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_asks_nobody_for_anything_and_is_shown(name: str) -> None:
    drawn = (FOLDER / f"{name}.svg").read_text("utf-8")
    assert "ascend-doctor" in drawn
    assert not re.search(r"@font-face|@import|url\((?!#)|href=|<script", drawn)
    pages = (*ROOT.glob("README*.md"), *ROOT.glob("docs/*.md"))
    shown = "".join(page.read_text("utf-8") for page in pages)
    assert f"pictures/{name.removesuffix('-zh')}.svg)" in shown


def test_no_picture_is_left_over() -> None:
    assert {path.stem for path in FOLDER.glob("*.svg")} == set(NAMES)


@pytest.mark.parametrize("language", ["", "-zh"])
def test_the_readme_shows_what_the_pictures_show(language: str) -> None:
    """What setup prints is from an index, which no picture asks."""
    page = (ROOT / f"README{language.replace('-', '.')}.md").read_text("utf-8")
    shown = re.findall(r"```text\n(.*?)```", page, re.DOTALL)[:2]
    assert "core_v0.15.3" in page
    for block, name in zip(shown, ("check", "diagnose"), strict=True):
        text = _text_of(f"{name}{language}")
        for row in block.splitlines():
            assert _without_time(row) in text


@pytest.mark.parametrize("name", NAMES)
def test_each_text_has_its_columns(name: str) -> None:
    drawn = (FOLDER / f"{name}.svg").read_text("utf-8")
    texts = re.findall(r'textLength="([\d.]+)"[^>]*>([^<\n]+)<', drawn)
    assert len(texts) > 20
    for length, text in texts:
        assert float(length) == pytest.approx(PICTURE.COLUMN * cell_len(html.unescape(text)))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")
@pytest.mark.parametrize("name", NAMES)
def test_a_picture_has_what_a_terminal_shows(name: str) -> None:
    """All but the time that the check took."""
    picture = PICTURE.PICTURES[name]
    rows = _STYLE.sub("", PICTURE.capture(picture)).splitlines()
    assert len(rows) > 20
    text = _text_of(name)
    assert [row for row in rows if _without_time(row) not in text] == []


def _text_of(name: str) -> str:
    drawn = (FOLDER / f"{name}.svg").read_text("utf-8")
    return _without_time(html.unescape(re.sub(r"<[^>]+>", "", drawn)))


def _without_time(text: str) -> str:
    return re.sub(r"\d+\.\ds", "", re.sub(r"\s+", "", text))
