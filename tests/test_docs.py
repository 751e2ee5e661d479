"""The documentation builds, and what it tells to type is what the commands take."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from ascend_doctor.cli import doctor
from tests.docs_world import PAGES, ROOT, Line, lines

pytestmark = pytest.mark.slow


def places(site: Path) -> list[str]:
    return [page.parent.relative_to(site).as_posix() for page in site.rglob("index.html")]


def test_the_documentation_builds_strictly(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    done = subprocess.run(
        [*command, "--config-file", str(ROOT / "mkdocs.yml"), "--site-dir", str(tmp_path / "site")],
        check=False,
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    entries = (
        *("check/cann-installed", "command/diagnose", "probe/smoke-train", "code/EI0006"),
        "failure/cann-libhccl-not-found",
    )
    for name in entries:
        assert (tmp_path / "site" / name / "index.html").is_file(), name
    english, chinese = (set(places(folder)) for folder in (tmp_path / "site", tmp_path / "site/zh"))
    assert chinese == {name for name in english if name.split("/")[0] != "zh"}
    for name in (*entries, "setup", "fidelity"):
        text, other = ((tmp_path / "site" / folder / name / "index.html") for folder in ("", "zh"))
        up = "../" * (name.count("/") + 1)
        assert f'href="{up}zh/{name}/" hreflang="zh"' in text.read_text("utf-8")
        assert f'href="../{up}{name}/" hreflang="en"' in other.read_text("utf-8")
        assert '<html lang="zh"' in other.read_text("utf-8")
        assert '<html lang="en"' in text.read_text("utf-8")
        assert 'role="dialog" aria-label="Search"' in text.read_text("utf-8")
        assert not re.search("<th></th>", text.read_text("utf-8"))
        assert '<link rel="alternate"' not in text.read_text("utf-8")
    index = json.loads((tmp_path / "site" / "search" / "search_index.json").read_text("utf-8"))
    assert any("\u5e76\u884c\u200b" in part["text"] for part in index["docs"])
    for name in ("checks", "commands", "failures", "matrix"):
        assert (tmp_path / "site" / name / "index.html").stat().st_size > 10_000


def test_the_picture_asks_nobody_for_anything() -> None:
    picture = (ROOT / "docs" / "check.svg").read_text("utf-8")
    assert "ascend-doctor" in picture
    assert not re.search(r"@font-face|@import|url\((?!#)|href=|<script", picture)
    assert all(
        "(docs/check.svg)" in page.read_text("utf-8") for page in PAGES if page.parent == ROOT
    )


def test_there_are_calls_to_look_at() -> None:
    assert len(lines()) > 20


@pytest.mark.parametrize("line", lines(), ids=lambda line: f"{line.page} {line.call}")
def test_what_is_told_to_type_is_taken(line: Line) -> None:
    page = line.page
    whole = line.call if line.call.count('"') % 2 == 0 else line.call.rstrip("\"' ")
    words = shlex.split(whole.replace("$?", "1"), comments=True)[1:]
    if not words or words[0].startswith("-"):
        return
    command = doctor.get_command(click.Context(doctor), words[0])
    assert command is not None, f"{page}: there is no command {words[0]}"
    while isinstance(command, click.Group):
        words = words[1:]
        command = command.get_command(click.Context(command), words[0])
        assert command is not None, f"{page}: {line}"
    command.make_context(words[0], words[1:])
