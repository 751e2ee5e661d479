"""The documentation builds."""

import json
import os
import re
import sys
from pathlib import Path

import pytest

from tests.conftest import Command
from tests.docs_world import ROOT
from tests.machines.compose import build
from tests.programs import run_program

pytestmark = pytest.mark.slow

_CHECK = "check -l 0 -q --replay"
# What a page shows first is what this prints; other outputs are of jobs, indexes and clusters.
SHOWN = {
    "index": f"{_CHECK} cann-not-sourced",
    "how-import": f"{_CHECK} cann-not-sourced",
    "how-container": f"{_CHECK} container-without-devices",
    "how-versions": "matrix solve --framework ms-swift --on soc=A2 --on cann=8.5",
    "how-memory": "plan --model Qwen3-30B-A3B --npus 16 --soc Ascend910B3",
}


def places(site: Path) -> list[str]:
    return [page.parent.relative_to(site).as_posix() for page in site.rglob("index.html")]


def test_the_documentation_builds_strictly(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    done = run_program(
        [*command, "--config-file", str(ROOT / "mkdocs.yml"), "--site-dir", str(tmp_path / "site")],
        check=False,
        timeout=600,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    entries = ("check/cann", "command/diagnose", "probe/smoke-train", "code/EI", "failure/hccl")
    english, chinese = (set(places(folder)) for folder in (tmp_path / "site", tmp_path / "site/zh"))
    assert {*entries, "how-hang"} < chinese
    assert chinese < english
    assert all(name.startswith(("zh", "failure/")) for name in english - chinese)
    for address, leads in (
        ("check/cann-installed", "../cann/#cann-installed"),
        ("failure/cann-libhccl-not-found", "../cann/#cann-libhccl-not-found"),
        ("zh/code/EI0006", "../EI/#EI0006"),
    ):
        page = tmp_path / "site" / address / "index.html"
        assert f"url={leads}" in page.read_text("utf-8")
        target, _, anchor = leads.partition("#")
        assert f'id="{anchor}"' in (page.parent / target / "index.html").read_text("utf-8")
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
        assert f'"base": "{up[:-1]}"' in text.read_text("utf-8")
        assert f'"base": "{up[:-1]}"' in other.read_text("utf-8")
    for folder, word in (("", "stack"), ("zh", "\u5e76\u884c\u200b")):
        path = tmp_path / "site" / folder / "search" / "search_index.json"
        docs = json.loads(path.read_text("utf-8"))["docs"]
        assert any(word in part["text"] for part in docs)
        assert not any(part["location"].startswith("zh/") for part in docs)
        assert {part["boost"] for part in docs if part["location"].startswith("how-hang")} == {4}
    for folder, title in (("", "is not loaded"), ("zh", "\u672a\u52a0\u8f7d\u5176\u73af\u5883")):
        shown = (tmp_path / "site" / folder / "check" / "cann" / "index.html").read_text("utf-8")
        assert re.search(rf"{title} +cann-sourced", shown)
    for name in ("checks", "commands", "failures", "matrix"):
        assert (tmp_path / "site" / name / "index.html").stat().st_size > 10_000
    sizes = [path.stat().st_size for path in (tmp_path / "site").rglob("*") if path.is_file()]
    assert sum(sizes) < 40 << 20


@pytest.mark.parametrize("page", SHOWN)
def test_a_page_shows_what_is_printed(page: str, installed: Command, tmp_path: Path) -> None:
    *words, last = SHOWN[page].split()
    if words[-1] == "--replay":
        last = str(build(last, tmp_path / last))
    wide = installed(*words, last, env={**os.environ, "COLUMNS": "100"})
    printed = [" ".join(row.split()) for row in wide.stdout.splitlines()]
    text = (ROOT / "docs" / f"{page}.md").read_text("utf-8")
    shown = text.split("```text\n")[1].split("\n```")[0]
    assert {" ".join(row.split()) for row in shown.splitlines()} <= set(printed)
