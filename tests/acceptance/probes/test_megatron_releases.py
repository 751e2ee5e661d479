"""The table of Megatron-LM's functions, against every release tag from core_v0.12 on."""

from pathlib import Path

import pytest

from ascend_doctor.findings import Level
from tests.acceptance.clones import folder, git, path_in, unpack
from tests.probes.test_stack_tree import judge_tree

REPOSITORY = "NVIDIA/Megatron-LM"


def releases() -> list[str]:
    path = path_in(folder(), REPOSITORY)
    tags = git(path, "tag", "--list", "core_v0.1*").decode().split() if path else []
    return [tag for tag in tags if "rc" not in tag and int(tag.split(".")[1]) >= 12]


@pytest.mark.parametrize("tag", releases())
def test_a_release_has_the_functions_of_the_table(tmp_path: Path, tag: str) -> None:
    unpack(tmp_path, REPOSITORY, tag, "megatron")
    (drift,) = judge_tree("api-drift", tmp_path)
    assert drift.level is Level.OK, drift
