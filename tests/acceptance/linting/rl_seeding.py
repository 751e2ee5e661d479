"""MindSpeed-RL's own configurations, and what is reported of them."""

import re
from pathlib import Path

from ascend_doctor.findings import Finding
from tests.acceptance.clones import clone, git
from tests.linting.judged import judge_text, mistakes

REPOSITORY, COMMIT = "Ascend/MindSpeed-RL", "05a90d77cb6cfad8999e2aee21068284db959579"


def files() -> dict[str, str]:
    """The configurations and their models, by path."""
    checkout = clone(REPOSITORY)
    listed = git(checkout, "ls-tree", "-r", "--name-only", COMMIT, "configs").decode().split()
    chosen = [path for path in listed if re.fullmatch(r"configs/(model/)?\w+\.yaml", path)]
    return {path: git(checkout, "show", f"{COMMIT}:{path}").decode() for path in chosen}


def configurations(contents: dict[str, str]) -> list[str]:
    return sorted(path for path in contents if "/model/" not in path)


def reports(contents: dict[str, str], path: str, folder: Path) -> list[Finding]:
    """Errors and warnings about a configuration among these files."""
    for name, content in contents.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content, "utf-8")
    target = folder / path
    return mistakes(judge_text(str(target), target.read_bytes(), "0.12.1"))
