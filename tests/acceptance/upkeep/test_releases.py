"""Rows and breakages of releases are those of the repositories."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ascend_doctor.provision.sources import RepositorySource
from ascend_doctor.upkeep.imports import ImportedName, find_losses
from ascend_doctor.upkeep.proposals import propose_rows
from ascend_doctor.upkeep.source_tree import SourceTree, read_release
from tests.acceptance.clones import clone
from tests.programs import run_program
from tests.upkeep.test_refresh import CATALOG, git, refs_of, without
from tests.upkeep.test_upgrade import BREAKAGES

IN_TREES = [row for row in BREAKAGES if "user" in row]


@pytest.mark.parametrize("row", IN_TREES, ids=lambda row: str(row["id"]))
def test_a_known_breakage_is_named_and_none_is_made_up(row: dict[str, Any]) -> None:
    folder = row["provider"]["folder"]
    old, new = (release(row["provider"], row["provider"][ref]) for ref in ("old", "new"))
    user = release(row["user"], row["user"]["ref"])
    lost = find_losses(user, old, new, folder)
    assert sorted(set(row["lost"]) - {name.dotted for name in lost}) == []
    repository = clone(row["provider"]["repository"].replace("+", "/"))
    made_up = [
        name.dotted
        for name in lost
        if not defines(repository, row["provider"]["old"], name)
        or defines(repository, row["provider"]["new"], name)
    ]
    assert made_up == []


def release(part: dict[str, str], ref: str) -> SourceTree:
    source = RepositorySource(url=str(clone(part["repository"].replace("+", "/"))))
    return read_release(source, ref, (part["folder"],))


def defines(repository: Path, ref: str, name: ImportedName) -> bool:
    """Whether git finds the name, no method, in its module, or a module of that name."""
    stem = name.module.replace(".", "/")
    files = [f"{stem}.py", f"{stem}/__init__.py"]
    word = re.escape(name.name)
    # Methods are indented; a function that is put on a class may have a self, too.
    stands = r"((async )?def|class)"
    defined = rf"^{stands} {word}\b|^ +{stands} {word}\b(?!\(self)|^ *{word} *[:=]"
    pattern = rf"{defined}|\b{word},?$|import .*\b{word}\b"
    here = ["git", "-C", str(repository)]
    completed = subprocess.run(
        [*here, "grep", "-qP", pattern, ref, "--", *files], check=False, timeout=60
    )
    below = run_program(
        [*here, "ls-tree", "-r", ref, "--", f"{stem}/{name.name}.py", f"{stem}/{name.name}"],
    )
    return completed.returncode == 0 or bool(below.stdout)


CLONES = {
    "megatron-lm": "NVIDIA/Megatron-LM",
    "mindspeed": "Ascend/MindSpeed",
    "mcore-bridge": "modelscope/mcore-bridge",
    "verl": "verl-project/verl",
}


@pytest.mark.parametrize("name", CLONES)
@pytest.mark.parametrize("frozen", ["2025-12-31", "2026-04-30", "2026-07-01"])
def test_a_matrix_of_an_earlier_day_gets_exactly_the_rows_that_came_later(
    name: str, frozen: str
) -> None:
    repository = clone(CLONES[name])
    component = CATALOG.component(name)
    days = {
        row.version: git(repository, "log", "-1", "--format=%cs", row.commit or ref, "--")
        for row in component.releases
        if (ref := ref_of(repository, name, row.version))
    }
    later = {version for version, day in days.items() if day > frozen}
    rows = [*propose_rows(without(component, later), refs_of(repository))]
    assert {row.version for row in rows} == later


def ref_of(repository: Path, name: str, version: str) -> str:
    """The tag or branch of a row's release; "" for pinned commits and rows without."""
    if name in {"megatron-lm", "mindspeed"}:
        return version if version.startswith(("core_", "2")) and "core_" in version else ""
    tag = f"v{version}"
    return tag if git(repository, "tag", "-l", tag) else ""
