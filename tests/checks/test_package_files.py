from ascend_doctor.facts import PackageCopy
from ascend_doctor.findings import Level
from tests.checks.machine import SITE, dist, having, healthy, imports, only, packages, run
from tests.checks.server import commands


def test_torch_that_is_there() -> None:
    assert run("torch-importable", healthy())[0].level is Level.OK
    none = packages(healthy(), gone=("torch", "torch-npu", "mindspeed"))
    assert run("torch-importable", none)[0].level is Level.SKIPPED


def test_torch_that_is_gone() -> None:
    finding = only(
        "torch-importable", packages(healthy(), gone=("torch",)), Level.ERROR, "torch is"
    )
    assert "torch==2.7.1" in commands(finding)
    bare = packages(healthy(), gone=("torch-npu",))
    only("torch-importable", bare, Level.ERROR, "MindSpeed is installed, and torch_npu is not")


def test_torch_that_is_listed_and_not_there() -> None:
    for module, name in (("torch", "torch"), ("torch_npu", "torch-npu")):
        facts = having(healthy(), "python", importable={"torch": True, "torch_npu": True})
        gone = having(facts, "python", importable={"torch": True, "torch_npu": True, module: False})
        only("torch-importable", gone, Level.ERROR, name, f"no module {module}")
        folder = PackageCopy(path=f"{SITE}/{module}", entry=SITE, kind="namespace")
        only("torch-importable", imports(facts, module, folder), Level.ERROR, "__init__.py")
    silent = having(healthy(), "python", importable={})
    only("torch-importable", silent, Level.UNKNOWN, "not looked for")


def test_files_of_packages() -> None:
    assert run("package-files", healthy())[0].level is Level.SKIPPED
    whole = packages(healthy(), dist("torch", "2.7.1", files_listed=2000))
    assert run("package-files", whole)[0].level is Level.OK
    gone = ("torch/a.py", "torch/b.py", "torch/c.py", "torch/d.py", "torch/e.py")
    lost = packages(healthy(), dist("torch", "2.7.1", files_listed=2000, files_missing=gone))
    finding = only("package-files", lost, Level.ERROR, "torch 2.7.1 are missing", "and 1 more")
    assert "--force-reinstall --no-deps torch==2.7.1" in commands(finding)
