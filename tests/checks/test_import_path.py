from typing import Any

from ascend_doctor.facts import GitState, PackageCopy
from ascend_doctor.findings import Level
from tests.checks.machine import SITE, copy, dist, having, healthy, imports, only, packages, run

CHECKOUT = copy("/src/Megatron-LM/megatron", "/src/Megatron-LM", "core", "training", core="0.12.1")
WHEEL = copy(f"{SITE}/megatron", SITE, "core", core="0.15.3")


def git(**fields: Any) -> GitState:
    return GitState(root="/src/Megatron-LM", **fields)


def test_pythonpath_entries() -> None:
    facts = having(
        healthy(), "import_path", pythonpath=("", "/a b", "rel", "/gone"), absent=("/gone",)
    )
    findings = run("pythonpath-entries", facts)
    assert [finding.level for finding in findings] == [Level.WARNING] * 3
    assert "empty entry" in findings[0].title
    assert "relative entries: rel" in findings[1].title
    assert "do not exist: /gone" in findings[2].title
    assert findings[0].remedy is not None
    assert findings[0].remedy.commands == ("export PYTHONPATH='/a b'",)
    unset = having(healthy(), "import_path", pythonpath=())
    assert run("pythonpath-entries", unset)[0].level is Level.SKIPPED
    assert run("pythonpath-order", unset)[0].level is Level.SKIPPED


def test_what_pythonpath_names_is_not_imported() -> None:
    facts = imports(healthy(), "megatron", WHEEL, CHECKOUT)
    finding = only(
        "pythonpath-order",
        facts,
        Level.WARNING,
        "`import megatron` does not take",
        f"imported: {SITE}/megatron; on PYTHONPATH: /src/Megatron-LM/megatron",
    )
    assert finding.remedy is not None
    assert run("pythonpath-order", imports(healthy(), "megatron", WHEEL))[0].level is Level.OK


def test_checkouts_are_noted() -> None:
    dirty = copy("/src/m", "/src", "core", git=git(commit="a" * 40, dirty=True))
    findings = run("checkouts", imports(imports(healthy(), "megatron", dirty), "mindspeed"))
    assert [finding.level for finding in findings] == [Level.OK]
    assert "local changes" in findings[0].title
    assert "aaaaaaaaaaaa," in findings[0].observed
    branch = copy("/src/m", "/src", "core", git=git(branch="core_r0.16.0"))
    findings = run("checkouts", imports(imports(healthy(), "megatron", branch), "mindspeed"))
    assert "on the branch core_r0.16.0" in findings[0].title
    plain = imports(imports(healthy(), "megatron", CHECKOUT), "mindspeed")
    assert run("checkouts", plain)[0].level is Level.SKIPPED


def test_a_source_tree_hides_torch_npu() -> None:
    package = PackageCopy(path="/src/pytorch/torch_npu", entry="/src/pytorch", kind="package")
    facts = imports(healthy(), "torch_npu", package)
    only("torch-npu-copy", facts, Level.WARNING, "/src/pytorch/torch_npu", SITE)
    editable = packages(facts, dist("torch-npu", "2.7.1", editable=True))
    assert run("torch-npu-copy", editable)[0].level is Level.OK
    there = PackageCopy(path=f"{SITE}/torch_npu", entry=f"{SITE}/", kind="package")
    assert run("torch-npu-copy", imports(facts, "torch_npu", there))[0].level is Level.OK
