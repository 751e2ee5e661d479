"""Links of pages, and names of pages in code, lead to files."""

import re
from pathlib import Path

from tests.house import tracked_files

ROOT = Path(__file__).parent.parent
_LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")
_PAGE = re.compile(r"(?<![\w:/.-])docs/(?:records/)?[\w-]+\.md\b")
_TEXTS = {".md", ".py", ".toml", ".txt", ".yaml", ".yml"}


def test_links_lead_to_files() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    links = [(page, link) for page in pages for link in _LINK.findall(page.read_text("utf-8"))]
    dead = [f"{page.name}: {link}" for page, link in links if not (page.parent / link).exists()]
    assert dead == []


def test_named_pages_exist() -> None:
    ours = (
        path for path in tracked_files() if path.suffix in _TEXTS and path.parts[0] != "matrices"
    )
    texts = [ROOT / path for path in ours]
    names = [(path, name) for path in texts for name in _PAGE.findall(path.read_text("utf-8"))]
    dead = [f"{path.name}: {name}" for path, name in names if not (ROOT / name).exists()]
    assert dead == []
