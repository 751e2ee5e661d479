import pytest

from ascend_doctor.facts import Doctor, ImportName, ImportPath, Python, Snapshot
from tests.checks.levels import cannot_tell, fails, passes, skips, warns
from tests.checks.machine import copy
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
    finding = fails("examined-python", examine(), "/usr/bin/python3", "torch_npu")
    assert "ascend-doctor check --python '/opt/train venv/bin/python'" in commands(finding)


@pytest.mark.parametrize("by", ["--python", "VIRTUAL_ENV", "CONDA_PREFIX"])
def test_somebody_chose_it(by: str) -> None:
    warns("examined-python", examine(by=by), f"{by} names")


@pytest.mark.parametrize("name", ["megatron", "mindspeed"])
def test_a_python_with_a_tree_of_training(name: str) -> None:
    passes("examined-python", examine(name))


@pytest.mark.parametrize("name", ["torch", "torch_npu"])
def test_a_python_with_a_package_of_training(name: str) -> None:
    passes("examined-python", examine(importable=(name,)))


def test_the_doctors_own_python_and_a_doctor_that_stands_alone() -> None:
    passes("examined-python", examine(own=True))
    for doctor in (None, Doctor(executable="/x", packages=("torch",))):
        skips("examined-python", examine(doctor=doctor))
    cannot_tell("examined-python", Snapshot())
