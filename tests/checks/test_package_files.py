from ascend_doctor.facts import PackageCopy
from tests.checks.levels import cannot_tell, fails, passes, skips
from tests.checks.machine import SITE, dist, having, healthy, imports, packages
from tests.checks.server import commands


def test_torch_that_is_there() -> None:
    passes("torch-importable", healthy())
    none = packages(healthy(), gone=("torch", "torch-npu", "mindspeed"))
    skips("torch-importable", none)


def test_torch_that_is_gone() -> None:
    finding = fails("torch-importable", packages(healthy(), gone=("torch",)), "torch is")
    assert "torch==2.7.1" in commands(finding)
    bare = packages(healthy(), gone=("torch-npu",))
    fails("torch-importable", bare, "MindSpeed is installed, and torch_npu is not")


def test_torch_that_is_listed_and_not_there() -> None:
    for module, name in (("torch", "torch"), ("torch_npu", "torch-npu")):
        facts = having(healthy(), "python", importable={"torch": True, "torch_npu": True})
        gone = having(facts, "python", importable={"torch": True, "torch_npu": True, module: False})
        fails("torch-importable", gone, name, f"no module {module}")
        folder = PackageCopy(path=f"{SITE}/{module}", entry=SITE, kind="namespace")
        fails("torch-importable", imports(facts, module, folder), "__init__.py")
    silent = having(healthy(), "python", importable={})
    cannot_tell("torch-importable", silent, "not looked for")


def test_files_of_packages() -> None:
    skips("package-files", healthy())
    whole = packages(healthy(), dist("torch", "2.7.1", files_listed=2000))
    passes("package-files", whole)
    gone = ("torch/a.py", "torch/b.py", "torch/c.py", "torch/d.py", "torch/e.py")
    lost = packages(healthy(), dist("torch", "2.7.1", files_listed=2000, files_missing=gone))
    finding = fails("package-files", lost, "torch 2.7.1 are missing", "and 1 more")
    assert "--force-reinstall --no-deps torch==2.7.1" in commands(finding)
