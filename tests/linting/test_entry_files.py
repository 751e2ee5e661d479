"""Python entry files: what their syntax trees give away, and what public ones do not have.

Labels of the entry files of the repositories below, read before the checks saw them: none imports
Megatron on an NPU without MindSpeed, none sets its visible devices after torch_npu at module level,
none calls torch.cuda.set_device without torch_npu.contrib.transfer_to_npu, and none imports
Megatron before the adaptor.
"""

from __future__ import annotations

import pytest

from ascend_doctor.checks import all_checks
from ascend_doctor.findings import Finding, Level
from ascend_doctor.linting.inputs import subjects
from ascend_doctor.linting.launch_checks import findings, machine, suits, unique
from ascend_doctor.matrix.catalog import Catalog
from tests.linting.test_examples import clone, git

CATALOG = Catalog()
CHECKS = tuple(check for check in all_checks() if suits(check))
REPOSITORIES = (
    *("NVIDIA/Megatron-LM", "Ascend/MindSpeed", "Ascend/MindSpeed-LLM", "Ascend/MindSpeed-MM"),
    *("Ascend/MindSpeed-RL", "modelscope/ms-swift", "verl-project/verl", "modelscope/twinkle"),
)
LABELLED = {
    "entry-adaptor",
    "entry-import-order",
    "entry-visible-devices",
    "entry-cuda-device",
}


def reports(path: str, content: bytes) -> list[Finding]:
    return [
        finding
        for finding in unique(
            tuple(
                finding
                for each in subjects(path, content, CATALOG)
                for finding in findings(each, machine("", ""), CATALOG, CHECKS)
            )
        )
        if finding.level in {Level.ERROR, Level.WARNING}
    ]


@pytest.mark.parametrize("repository", REPOSITORIES)
def test_public_entry_files_have_none_of_these_mistakes(repository: str) -> None:
    place = clone(repository)
    command = ("grep", "-l", "__main__", "HEAD", "--", "*.py")
    paths = [path.removeprefix("HEAD:") for path in git(place, *command).decode().split()]
    wrong = [
        f"{finding.location}: {finding.check}"
        for path in paths
        for finding in reports(path, git(place, "show", f"HEAD:{path}"))
        if finding.check in LABELLED
    ]
    assert len(paths) >= 8
    assert wrong == []
