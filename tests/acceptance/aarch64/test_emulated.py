"""The binaries that hosts of NPUs have: arm64, through qemu-user.

`make-root` and `install` make the root; the tests run as root. Level 0 takes seconds, the rehearsal
half an hour and more.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance import needs

ENTER = Path(__file__).parent / "enter"
ROOT = needs.first_path("aarch64-root")
DEADLINE = 4 * 3600


def report(*arguments: str) -> dict[str, Any]:
    """What the doctor says there, as JSON."""
    done = subprocess.run(
        [ENTER, ROOT, "ascend-doctor", *arguments, "--format", "json", "--quiet"],
        check=False,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    loaded: dict[str, Any] = json.loads(done.stdout)
    return loaded


def errors(told: dict[str, Any]) -> dict[str, str]:
    return {one["check"]: one["title"] for one in told["findings"] if one["level"] == "error"}


def test_the_machine_is_recognised_as_emulated() -> None:
    told = report("check", "-l", "0", "--only", "torch-cuda-build")
    assert told["snapshot"]["host"]["arch"] == "aarch64"
    assert told["patience"] > 1
    assert told["patience_because"].startswith("aarch64 is emulated on ")


def test_torch_of_the_package_index_is_no_cuda_build() -> None:
    told = report("check", "-l", "0")
    assert errors(told).keys() == {"cann-installed", "torch-npu-libraries", "torch-autoload"}


def test_without_cann_imports_fail_for_one_reason() -> None:
    told = report("check", "-l", "1")
    assert "libhccl.so" in errors(told)["inspect-env"]


@pytest.mark.parametrize("level", [1, 2, 3])
def test_a_rehearsal_ends_without_errors(level: int) -> None:
    told = report("rehearse", "-l", str(level), "--nproc", "2")
    assert errors(told) == {}
    ran = [one["level"] for one in told["levels"] if one["ran"]]
    assert ran == list(range(level + 1))
