"""Pictures of the documentation show what terminals show today, and ask nobody for anything."""

import html
import importlib.util
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "pictures"
_STYLE = re.compile(r"\x1b\[[\d;]*m|\x1b\]8;;.*?\x1b\\|\x1b\(B|\x0f")


def _script() -> Any:
    spec = importlib.util.spec_from_file_location("picture", ROOT / "docs" / "picture.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["picture"] = module
    spec.loader.exec_module(module)
    return module


PICTURE = _script()
NAMES = list(PICTURE.PICTURES)


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_asks_nobody_for_anything_and_is_shown(name: str) -> None:
    drawn = (FOLDER / f"{name}.svg").read_text("utf-8")
    assert "ascend-doctor" in drawn
    assert not re.search(r"@font-face|@import|url\((?!#)|href=|<script", drawn)
    assert f"(pictures/{name}.svg)" in (ROOT / "docs" / "reports.md").read_text("utf-8")


def test_no_picture_is_left_over() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(NAMES)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")
@pytest.mark.parametrize("name", NAMES)
def test_a_picture_has_what_a_terminal_shows(name: str) -> None:
    """All but the time that the check took."""
    picture = PICTURE.PICTURES[name]
    rows = _STYLE.sub("", PICTURE.capture(picture)).splitlines()
    assert len(rows) > 20
    drawn = (FOLDER / f"{name}.svg").read_text("utf-8")
    text = _without_time(html.unescape(re.sub(r"<[^>]+>", "", drawn)))
    assert [row for row in rows if _without_time(row) not in text] == []


def _without_time(text: str) -> str:
    return re.sub(r"\d+\.\ds", "", re.sub(r"\s+", "", text))
