"""Python entry files of public repositories have none of these mistakes.

Labels of the repositories below, read before the checks saw them: none imports Megatron on an NPU
without MindSpeed, none sets its visible devices after torch_npu at module level, none calls
torch.cuda.set_device without torch_npu.contrib.transfer_to_npu, and none imports Megatron before
the adaptor.
"""

from __future__ import annotations

import pytest

from tests.acceptance.clones import clone, git
from tests.linting.test_entry_files import LABELLED, reports

REPOSITORIES = (
    *("NVIDIA/Megatron-LM", "Ascend/MindSpeed", "Ascend/MindSpeed-LLM", "Ascend/MindSpeed-MM"),
    *("Ascend/MindSpeed-RL", "modelscope/ms-swift", "verl-project/verl", "modelscope/twinkle"),
)


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
