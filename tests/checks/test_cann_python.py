import pytest

from ascend_doctor.facts import CannShell
from ascend_doctor.findings import Level
from tests.checks.levels import cannot_tell, fails, passes, remedy_of, skips, warns
from tests.checks.machine import dist, having, healthy, install, packages, run


def test_python_modules_of_cann() -> None:
    facts = having(healthy(), "python", importable={"tbe": False, "te": True})
    finding = fails("tbe-python", facts, "cannot be imported: tbe", "/venv/bin/python")
    assert remedy_of(finding).commands == ("source /usr/local/Ascend/cann/set_env.sh",)
    cannot_tell("tbe-python", having(healthy(), "python", importable={}))
    unsourced = having(facts, "cann", shell=CannShell())
    skips("tbe-python", unsourced)


def test_packages_that_cann_imports() -> None:
    facts = packages(healthy(), gone=("decorator", "attrs"))
    finding = fails("cann-python-packages", facts, "decorator, attrs", "500001")
    assert remedy_of(finding).commands == ("/venv/bin/python -m pip install decorator attrs",)
    facts = packages(healthy(), gone=("protobuf",))
    warns("cann-python-packages", facts, "protobuf")
    facts = having(healthy(), "python", importable={"scipy": False})
    fails("cann-python-packages", facts, "scipy")


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
    finding = warns("numpy-cann", facts, "numpy 2.0.2 with CANN 8.2.RC1")
    assert remedy_of(finding).commands == ("/venv/bin/python -m pip install 'numpy<2'",)
    passes("numpy-cann", install(facts, version="8.3.RC1"))
