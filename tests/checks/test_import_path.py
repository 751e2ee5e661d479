from typing import Any

from ascend_doctor.facts import GitState, PackageCopy
from ascend_doctor.findings import Level
from tests.checks.levels import passes, remedy_of, skips, warns
from tests.checks.machine import SITE, copy, dist, having, healthy, imports, packages, run

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
    assert remedy_of(findings[0]).commands == ("export PYTHONPATH='/a b'",)
    unset = having(healthy(), "import_path", pythonpath=())
    skips("pythonpath-entries", unset)
    skips("pythonpath-order", unset)


def test_what_pythonpath_names_is_not_imported() -> None:
    facts = imports(healthy(), "megatron", WHEEL, CHECKOUT)
    finding = warns(
        "pythonpath-order",
        facts,
        "`import megatron` does not take",
        f"imported: {SITE}/megatron; on PYTHONPATH: /src/Megatron-LM/megatron",
    )
    assert finding.remedy is not None
    passes("pythonpath-order", imports(healthy(), "megatron", WHEEL))


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
    skips("checkouts", plain)


def test_a_source_tree_hides_torch_npu() -> None:
    package = PackageCopy(path="/src/pytorch/torch_npu", entry="/src/pytorch", kind="package")
    facts = imports(healthy(), "torch_npu", package)
    warns("torch-npu-copy", facts, "/src/pytorch/torch_npu", SITE)
    editable = packages(facts, dist("torch-npu", "2.7.1", editable=True))
    passes("torch-npu-copy", editable)
    there = PackageCopy(path=f"{SITE}/torch_npu", entry=f"{SITE}/", kind="package")
    passes("torch-npu-copy", imports(facts, "torch_npu", there))
