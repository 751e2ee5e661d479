"""MindSpeed-RL's own configurations, and what is reported of them."""

import re
from pathlib import Path

from ascend_doctor.checks import all_checks
from ascend_doctor.findings import Finding, Level
from ascend_doctor.linting.inputs import subjects
from ascend_doctor.linting.launch_checks import findings, machine, suits
from ascend_doctor.matrix.catalog import Catalog
from tests.acceptance.clones import clone, git

REPOSITORY, COMMIT = "Ascend/MindSpeed-RL", "05a90d77cb6cfad8999e2aee21068284db959579"
CATALOG = Catalog()
CHECKS = tuple(check for check in all_checks() if suits(check))


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
    base, target = machine("0.12.1", ""), folder / path
    judged = (
        finding
        for each in subjects(str(target), target.read_bytes(), CATALOG)
        for finding in findings(each, base, CATALOG, CHECKS)
    )
    return [finding for finding in judged if finding.level in {Level.ERROR, Level.WARNING}]
