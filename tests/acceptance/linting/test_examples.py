"""The launches that maintainers ship, from clones of their repositories."""

import re
from collections import Counter

import pytest

from ascend_doctor.findings import Finding, Level
from ascend_doctor.linting.inputs import subjects
from tests.acceptance.clones import clone, git
from tests.linting.judged import CATALOG, judge_inputs
from tests.linting.test_entry_files import LABELLED
from tests.linting.test_entry_files import reports as entry_reports

# Repository, the version of Megatron-LM that it names, files and launches that there are at least.
REPOSITORIES = [
    ("modelscope/ms-swift", "0.16.1", 400, 400),
    ("modelscope/twinkle", "0.16.1", 80, 10),
    ("verl-project/verl", "0.16.1", 250, 180),
    ("Ascend/MindSpeed", "0.12.1", 200, 80),
]
# Mistakes of the files: ETP is the TP of 4 where it is not set, a misspelt option, and a format of
# checkpoints that legacy models do not take.
MISTAKES = {
    ("examples/grpo_trainer/run_qwen3_30b_a3b_megatron.sh", "run-world-size"),
    # The rollout's configuration asserts EP = TP x DP, and the script's own default is vllm.
    ("examples/grpo_trainer/run_qwen3_30b_a3b_megatron.sh", "run-verl-values"),
    # model_engine is a group at the top, and no key of an actor.
    ("examples/router_replay/run_qwen3_30b_a3b_megatron.sh", "run-verl-keys"),
    ("examples/tuning/scaling/run_qwen2_5_32b_megatron.sh", "run-verl-keys"),
    # With the script's own defaults 16 nodes meet at the address of each.
    ("examples/sft/gsm8k/run_deepseek_v4_megatron_lite.sh", "run-master-address"),
    ("examples/sft/gsm8k/run_qwen3_5_397b_a17b_megatron.sh", "run-master-address"),
    ("tests_extend/example/train_distributed_ms.sh", "run-flags-known"),
    ("tests_extend/system_tests/gpt/pretrain_gpt_deepspeed_moe_128k.sh", "run-arguments"),
}
# Options of scripts that are launched, which nobody but these scripts can tell.
OPEN = {"launch-resolved", "run-flags-known", "run-swift-options"}
# Python files count where they start something; libraries have no order of imports to keep.
_STARTED = re.compile(r"example|cookbook|recipe|tests_extend|pretrain")
# Labelled before the checks saw them: none has an import or a device out of order.
WITH_ENTRY_FILES = (
    *("NVIDIA/Megatron-LM", "Ascend/MindSpeed", "Ascend/MindSpeed-LLM", "Ascend/MindSpeed-MM"),
    *("Ascend/MindSpeed-RL", "modelscope/ms-swift", "verl-project/verl", "modelscope/twinkle"),
)


def chosen(path: str) -> bool:
    return path.endswith((".sh", ".yaml", ".yml")) or (
        path.endswith(".py") and _STARTED.search(path) is not None
    )


@pytest.mark.parametrize(("repository", "megatron", "files", "launches"), REPOSITORIES)
def test_no_error_on_what_maintainers_ship(
    repository: str, megatron: str, files: int, launches: int
) -> None:
    checkout = clone(repository)
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
        judged += judge_inputs(lint_inputs, megatron)
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


@pytest.mark.parametrize("repository", WITH_ENTRY_FILES)
def test_public_entry_files_have_none_of_these_mistakes(repository: str) -> None:
    checkout = clone(repository)
    command = ("grep", "-l", "__main__", "HEAD", "--", "*.py")
    paths = [path.removeprefix("HEAD:") for path in git(checkout, *command).decode().split()]
    wrong = [
        f"{finding.location}: {finding.check}"
        for path in paths
        for finding in entry_reports(path, git(checkout, "show", f"HEAD:{path}"))
        if finding.check in LABELLED
    ]
    assert len(paths) >= 8
    assert wrong == []
