"""Requirements bind the examined interpreter, by its own processor and Python."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ascend_doctor.errors import Unknown
from ascend_doctor.facts import Python, Snapshot
from ascend_doctor.findings import Level
from ascend_doctor.judging.requirements import range_declared, requirements
from tests.checks.levels import cannot_tell, fails, skips
from tests.checks.machine import dist, having, healthy, packages, run
from tests.present import present

# Requires-Dist of real wheels; the right answer is what torch/version.py says of CUDA.
WHEELS = json.loads((Path(__file__).parent / "torch_wheels.json").read_text())["wheels"]


def with_torch(wheel: dict[str, Any], python: str = "3.11.9") -> Snapshot:
    """A real wheel's torch, on that wheel's processor."""
    _, version, *_ = wheel["wheel"].split("-")
    machine = present(re.search("aarch64|x86_64", wheel["wheel"]))
    torch = dist("torch", version, requires=tuple(wheel["requires"]))
    facts = packages(healthy(), torch, dist("torch-npu", version))
    return having(facts, "python", machine=machine[0], version=python)


@pytest.mark.parametrize("wheel", WHEELS, ids=lambda wheel: wheel["wheel"])
def test_cuda_builds_are_told_by_the_requirements_of_real_wheels(wheel: dict[str, Any]) -> None:
    level = Level.OK if wheel["version_py_cuda"] is None else Level.ERROR
    assert [finding.level for finding in run("torch-cuda-build", with_torch(wheel))] == [level]


@pytest.mark.parametrize("wheel", WHEELS, ids=lambda wheel: wheel["wheel"])
def test_packages_for_another_cuda_release_are_reported(wheel: dict[str, Any]) -> None:
    facts, cuda = with_torch(wheel), wheel["version_py_cuda"]
    other = "nvidia-nvshmem-cu12" if cuda and cuda.startswith("13") else "nvidia-nvshmem-cu13"
    assert facts.python is not None
    facts = having(facts, "python", distributions=(*facts.python.distributions, dist(other, "3")))
    level = Level.SKIPPED if cuda is None else Level.ERROR
    assert [finding.level for finding in run("cuda-major", facts, "cuda")] == [level]


def test_a_marker_without_its_fact_is_no_answer() -> None:
    arm = next(
        wheel for wheel in WHEELS if "2.7.1" in wheel["wheel"] and "aarch64" in wheel["wheel"]
    )
    facts = having(with_torch(arm), "python", machine="")
    cannot_tell("torch-cuda-build", facts, "did not say its platform_machine")


@pytest.mark.parametrize(
    ("marker", "binds"),
    [
        ("python_version >= '3.12'", False),
        ("python_version < '3.12'", True),
        ("python_full_version == '3.11.9'", True),
        ("platform_machine == 'aarch64'", True),
        ("platform_machine == 'x86_64'", False),
        ("sys_platform == 'win32'", False),
        ("platform_system == 'Linux' and os_name == 'posix'", True),
        ("implementation_name == 'cpython'", True),
        ("platform_python_implementation == 'CPython'", True),
        ("platform_python_implementation == 'PyPy'", False),
        ("extra == 'dev'", False),
        ("python_version ~= 'odd'", False),
    ],
)
def test_markers_are_those_of_the_examined_interpreter(marker: str, binds: bool) -> None:
    python = Python(version="3.11.9", machine="aarch64", implementation="cpython")
    verl = dist("verl", "0.7", requires=("broken >>> 1", f"NumPy<2; {marker}"))
    assert [str(asked.specifier) for asked in requirements(python, verl)] == ["<2"] * binds
    assert range_declared(python, verl, "numpy") == ("<2" if binds else None)


def test_what_is_not_known_binds_nobody_silently() -> None:
    python = Python(version="3.11.9", machine="aarch64", implementation="cpython")
    with pytest.raises(Unknown, match="platform_release"):
        range_declared(
            python, dist("verl", "1", requires=("numpy<2; platform_release > '5'",)), "numpy"
        )


def test_torch_npu_asks_for_another_build_on_each_processor() -> None:
    both = (
        "torch==2.7.1+cpu; platform_machine == 'x86_64'",
        "torch==2.7.1; platform_machine != 'x86_64'",
    )
    facts = packages(healthy(), dist("torch", "2.7.1"), dist("torch-npu", "2.7.1", requires=both))
    skips("torch-x86-not-cpu", facts)
    facts = having(facts, "python", machine="x86_64")
    fails("torch-x86-not-cpu", facts, "not the +cpu build")
