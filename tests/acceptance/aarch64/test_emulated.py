"""The binaries that hosts of NPUs have: arm64, through qemu-user.

`make-root` and `install` make the root; the tests run as root. Level 0 takes seconds, the rehearsal
half an hour and more.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance import needs
from tests.programs import run_program

ENTER = Path(__file__).parent / "enter"
ROOT = needs.first_path("aarch64-root")
DEADLINE = 4 * 3600


def report(*arguments: str) -> dict[str, Any]:
    done = run_program(
        [ENTER, ROOT, "ascend-doctor", *arguments, "--format", "json", "--quiet"],
        check=False,
        timeout=DEADLINE,
    )
    loaded: dict[str, Any] = json.loads(done.stdout)
    return loaded


def errors(report: dict[str, Any]) -> dict[str, str]:
    return {
        finding["check"]: finding["title"]
        for finding in report["findings"]
        if finding["level"] == "error"
    }


def test_the_machine_is_recognised_as_emulated() -> None:
    document = report("check", "-l", "0", "--only", "torch-cuda-build")
    assert document["snapshot"]["host"]["arch"] == "aarch64"
    assert document["patience"] > 1
    assert document["patience_because"].startswith("aarch64 is emulated on ")


def test_torch_of_the_package_index_is_no_cuda_build() -> None:
    document = report("check", "-l", "0")
    assert errors(document).keys() == {"cann-installed", "torch-npu-libraries", "torch-autoload"}


def test_without_cann_imports_fail_for_one_reason() -> None:
    document = report("check", "-l", "1")
    assert "libhccl.so" in errors(document)["inspect-env"]


@pytest.mark.parametrize("level", [1, 2, 3])
def test_a_rehearsal_ends_without_errors(level: int) -> None:
    document = report("rehearse", "-l", str(level), "--nproc", "2")
    assert errors(document) == {}
    ran = [level["level"] for level in document["levels"] if level["ran"]]
    assert ran == list(range(level + 1))
