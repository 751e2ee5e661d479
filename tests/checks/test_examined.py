import pytest

from ascend_doctor.facts import Doctor, ImportName, ImportPath, Python, Snapshot
from ascend_doctor.findings import Level
from tests.checks.machine import copy, only, run
from tests.checks.server import commands

DOCTOR = Doctor(executable="/opt/train venv/bin/python", packages=("torch", "torch_npu"))


def examine(*names: str, importable: tuple[str, ...] = (), **fields: object) -> Snapshot:
    """A Python with only these packages."""
    python = {
        "executable": "/usr/bin/python3",
        "by": "PATH",
        "doctor": DOCTOR,
        "importable": dict.fromkeys(importable, True),
        **fields,
    }
    import_names = tuple(ImportName(name=name, copies=(copy(f"/{name}", "/"),)) for name in names)
    return Snapshot(python=Python(**python), import_path=ImportPath(names=import_names))  # type: ignore[arg-type]


def test_nobody_chose_a_python_that_trains_nothing() -> None:
    finding = only("examined-python", examine(), Level.ERROR, "/usr/bin/python3", "torch_npu")
    assert "ascend-doctor check --python '/opt/train venv/bin/python'" in commands(finding)


@pytest.mark.parametrize("by", ["--python", "VIRTUAL_ENV", "CONDA_PREFIX"])
def test_somebody_chose_it(by: str) -> None:
    only("examined-python", examine(by=by), Level.WARNING, f"{by} names")


@pytest.mark.parametrize("name", ["megatron", "mindspeed"])
def test_a_python_with_a_tree_of_training(name: str) -> None:
    assert run("examined-python", examine(name))[0].level is Level.OK


@pytest.mark.parametrize("name", ["torch", "torch_npu"])
def test_a_python_with_a_package_of_training(name: str) -> None:
    assert run("examined-python", examine(importable=(name,)))[0].level is Level.OK


def test_the_doctors_own_python_and_a_doctor_that_stands_alone() -> None:
    assert run("examined-python", examine(own=True))[0].level is Level.OK
    for doctor in (None, Doctor(executable="/x", packages=("torch",))):
        assert run("examined-python", examine(doctor=doctor))[0].level is Level.SKIPPED
    assert run("examined-python", Snapshot())[0].level is Level.UNKNOWN
