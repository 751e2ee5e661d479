import pytest

from ascend_doctor.facts import CannShell
from ascend_doctor.findings import Level
from tests.checks.machine import dist, having, healthy, install, only, packages, run


def test_python_modules_of_cann() -> None:
    facts = having(healthy(), "python", importable={"tbe": False, "te": True})
    finding = only("tbe-python", facts, Level.ERROR, "cannot be imported: tbe", "/venv/bin/python")
    assert finding.remedy is not None
    assert finding.remedy.commands == ("source /usr/local/Ascend/cann/set_env.sh",)
    only("tbe-python", having(healthy(), "python", importable={}), Level.UNKNOWN)
    unsourced = having(facts, "cann", shell=CannShell())
    assert run("tbe-python", unsourced)[0].level is Level.SKIPPED


def test_packages_that_cann_imports() -> None:
    facts = packages(healthy(), gone=("decorator", "attrs"))
    finding = only("cann-python-packages", facts, Level.ERROR, "decorator, attrs", "500001")
    assert finding.remedy is not None
    assert finding.remedy.commands == ("/venv/bin/python -m pip install decorator attrs",)
    facts = packages(healthy(), gone=("protobuf",))
    only("cann-python-packages", facts, Level.WARNING, "protobuf")
    facts = having(healthy(), "python", importable={"scipy": False})
    only("cann-python-packages", facts, Level.ERROR, "scipy")


@pytest.mark.parametrize(
    ("torch", "numpy", "level"),
    [
        ("2.2.2", "2.0.0", Level.WARNING),
        ("2.3.0", "2.0.0", Level.OK),
        ("2.1.0", "1.26.4", Level.OK),
    ],
)
def test_numpy_2_beside_an_old_torch(torch: str, numpy: str, level: Level) -> None:
    facts = packages(healthy(), dist("torch", torch), dist("numpy", numpy))
    assert run("numpy-torch", facts)[0].level is level


def test_numpy_2_under_an_old_cann() -> None:
    facts = install(packages(healthy(), dist("numpy", "2.0.2")), version="8.2.RC1")
    finding = only("numpy-cann", facts, Level.WARNING, "numpy 2.0.2 with CANN 8.2.RC1")
    assert finding.remedy is not None
    assert finding.remedy.commands == ("/venv/bin/python -m pip install 'numpy<2'",)
    assert run("numpy-cann", install(facts, version="8.3.RC1"))[0].level is Level.OK
