"""The launches that maintainers ship, from clones of their repositories."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from ascend_doctor.checks import all_checks
from ascend_doctor.findings import Finding, Level
from ascend_doctor.linting.inputs import subjects
from ascend_doctor.linting.launch_checks import findings, machine, suits, unique
from ascend_doctor.matrix.catalog import Catalog
from tests.acceptance.clones import clone, git

CATALOG = Catalog()
# Repository, the version of Megatron-LM that it names, files and launches that there are at least.
REPOSITORIES = [
    ("modelscope/ms-swift", "0.16.1", 400, 400),
    ("modelscope/twinkle", "0.16.1", 80, 10),
    ("verl-project/verl", "0.16.1", 250, 180),
    ("Ascend/MindSpeed", "0.12.1", 200, 80),
]
# Mistakes of the files: ETP is the TP of 4 where it is not set, and a misspelt option.
MISTAKES = {
    ("examples/grpo_trainer/run_qwen3_30b_a3b_megatron.sh", "run-world-size"),
    ("tests_extend/example/train_distributed_ms.sh", "run-flags-known"),
}
# Options of scripts that are launched, which nobody but these scripts can tell.
OPEN = {"launch-resolved", "run-flags-known", "run-swift-options"}
# Python files count where they start something; libraries have no order of imports to keep.
_STARTED = re.compile(r"example|cookbook|recipe|tests_extend|pretrain")


def chosen(path: str) -> bool:
    return path.endswith((".sh", ".yaml", ".yml")) or (
        path.endswith(".py") and _STARTED.search(path) is not None
    )


@pytest.mark.parametrize(("repository", "megatron", "files", "launches"), REPOSITORIES)
def test_no_error_on_what_maintainers_ship(
    repository: str, megatron: str, files: int, launches: int
) -> None:
    place = clone(repository)
    base, checks = machine(megatron, ""), [one for one in all_checks() if suits(one)]
    paths = git(place, "ls-tree", "-r", "--name-only", "HEAD").decode().split("\n")
    paths = [one for one in paths if chosen(one)]
    found: list[Finding] = []
    started = 0
    for path in paths:
        told = subjects(path, git(place, "show", f"HEAD:{path}"), CATALOG)
        started += sum(one.launch is not None and one.launch.present for one in told)
        found += unique(
            tuple(one for each in told for one in findings(each, base, CATALOG, checks))
        )
    print(repository, len(paths), started, Counter(one.level.value for one in found))  # noqa: T201
    assert len(paths) >= files
    assert started >= launches
    # What scripts leave to their shell is said, and is no fault of theirs.
    wrong = [
        one
        for one in found
        if (
            one.level is Level.ERROR
            and (one.location and one.location.file, one.check) not in MISTAKES
        )
        or (one.level is Level.UNKNOWN and one.check not in OPEN)
    ]
    assert [f"{one.location}: {one.check}: {one.title}" for one in wrong] == []
