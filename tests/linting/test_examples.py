"""The launches that maintainers ship, from clones in the folder ASCEND_DOCTOR_TEST_EXAMPLES.

The folder has a git directory or a checkout for each repository, as OWNER+NAME/repo or NAME.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from ascend_doctor.checks import all_checks
from ascend_doctor.findings import Finding, Level
from ascend_doctor.linting.inputs import subjects
from ascend_doctor.linting.launch_checks import findings, machine, suits, unique
from ascend_doctor.matrix.catalog import Catalog

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


def clone(repository: str) -> Path:
    folder = os.environ.get("ASCEND_DOCTOR_TEST_EXAMPLES")
    if not folder:
        pytest.skip("ASCEND_DOCTOR_TEST_EXAMPLES names no folder with clones")
    owner, name = repository.split("/")
    for path in (Path(folder, f"{owner}+{name}", "repo"), Path(folder, name)):
        if path.is_dir():
            return path
    pytest.skip(f"{folder} has no clone of {repository}")


def git(path: Path, *arguments: str) -> bytes:
    command = ["git", "-C", str(path), *arguments]
    return subprocess.run(command, check=True, capture_output=True, timeout=120).stdout


def chosen(path: str) -> bool:
    return path.endswith((".sh", ".yaml", ".yml")) or (
        path.endswith(".py") and _STARTED.search(path) is not None
    )


@pytest.mark.parametrize(("repository", "megatron", "files", "launches"), REPOSITORIES)
def test_no_error_on_what_maintainers_ship(
    repository: str, megatron: str, files: int, launches: int
) -> None:
    checkout = clone(repository)
    base, checks = machine(megatron, ""), [check for check in all_checks() if suits(check)]
    paths = git(checkout, "ls-tree", "-r", "--name-only", "HEAD").decode().split("\n")
    paths = [path for path in paths if chosen(path)]
    judged: list[Finding] = []
    started = 0
    for path in paths:
        lint_inputs = subjects(path, git(checkout, "show", f"HEAD:{path}"), CATALOG)
        started += sum(
            lint_input.launch is not None and lint_input.launch.present
            for lint_input in lint_inputs
        )
        judged += unique(
            tuple(
                finding for each in lint_inputs for finding in findings(each, base, CATALOG, checks)
            )
        )
    print(repository, len(paths), started, Counter(finding.level.value for finding in judged))  # noqa: T201
    assert len(paths) >= files
    assert started >= launches
    # What scripts leave to their shell is said, and is no fault of theirs.
    wrong = [
        finding
        for finding in judged
        if (
            finding.level is Level.ERROR
            and (finding.location and finding.location.file, finding.check) not in MISTAKES
        )
        or (finding.level is Level.UNKNOWN and finding.check not in OPEN)
    ]
    assert [f"{finding.location}: {finding.check}: {finding.title}" for finding in wrong] == []
