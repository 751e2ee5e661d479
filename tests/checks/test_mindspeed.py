from typing import Any

from ascend_doctor.facts import GitState, PackageCopy, Snapshot
from ascend_doctor.findings import Level
from tests.checks.machine import copy, dist, having, healthy, imports, only, packages, run


def mindspeed(facts: Snapshot, **fields: Any) -> Snapshot:
    package = PackageCopy(
        path="/src/MindSpeed/mindspeed",
        entry="/src/MindSpeed",
        kind="editable",
        git=GitState(root="/src/MindSpeed", **fields) if fields else None,
    )
    return imports(facts, "mindspeed", package)


def megatron(facts: Snapshot, version: str | None, git: GitState | None = None) -> Snapshot:
    versions = {"core": version} if version else {}
    megatron_copy = copy("/src/M/megatron", "/src/M", "core", "training", git=git, **versions)
    return imports(facts, "megatron", megatron_copy)


TREE = GitState(root="/src/M tree", branch="main")


def test_a_pair_of_two_lines() -> None:
    facts = megatron(mindspeed(healthy(), branch="core_r0.16.0"), "0.15.3", TREE)
    finding = only(
        "megatron-mindspeed-pair",
        facts,
        Level.ERROR,
        "MindSpeed core_r0.16.0 is for Megatron-core 0.16, imported is 0.15.3",
    )
    assert finding.remedy is not None
    assert finding.remedy.commands == (
        "git -C '/src/M tree' fetch --tags",
        "git -C '/src/M tree' checkout core_v0.16.0",
    )
    assert run("megatron-mindspeed-pair", megatron(facts, "0.16.2"))[0].level is Level.OK


def test_no_checkout_is_proposed_over_local_changes() -> None:
    dirty = GitState(root="/src/M", dirty=True)
    facts = megatron(mindspeed(healthy(), branch="core_r0.16.0"), "0.15.3", dirty)
    finding = only("megatron-mindspeed-pair", facts, Level.ERROR)
    assert finding.remedy is not None
    assert finding.remedy.commands == ()


def test_a_branch_that_the_table_lacks_still_tells_its_line() -> None:
    facts = megatron(mindspeed(healthy(), branch="core_r0.19.0"), "0.18.2", TREE)
    finding = only("megatron-mindspeed-pair", facts, Level.ERROR, "for Megatron-core 0.19")
    assert finding.remedy is not None
    assert "the line 0.19" in finding.remedy.summary


def test_the_branch_is_found_by_tag_by_commit_or_by_the_distribution() -> None:
    tag = megatron(mindspeed(healthy(), refs=("v26.0.0_core_r0.12.1",)), "0.16.0")
    only("megatron-mindspeed-pair", tag, Level.ERROR, "0.12")
    remote = megatron(mindspeed(healthy(), refs=("master",)), "0.16.0")
    only("megatron-mindspeed-pair", remote, Level.ERROR, "MindSpeed master is for")
    commit = megatron(mindspeed(healthy(), commit="f2b0977e"), "0.16.0")
    only("megatron-mindspeed-pair", commit, Level.ERROR, "0.12")
    by_pip = dist("mindspeed", "0.12.1", commit="f2b0977ec85f0ce3906e34df1e1aafed7b22cafd")
    facts = packages(megatron(mindspeed(healthy()), "0.16.0"), by_pip)
    only("megatron-mindspeed-pair", facts, Level.ERROR, "MindSpeed this branch is for")


def test_what_cannot_be_told_of_mindspeed_or_megatron() -> None:
    only("megatron-mindspeed-pair", mindspeed(healthy()), Level.UNKNOWN, "no git checkout")
    strange = mindspeed(healthy(), commit="1234567890abcdef")
    only("megatron-mindspeed-pair", strange, Level.UNKNOWN, "commit 1234567890ab")
    only("megatron-mindspeed-pair", mindspeed(healthy(), branch="dev"), Level.UNKNOWN, "line")
    only("megatron-mindspeed-pair", megatron(healthy(), None), Level.UNKNOWN, "its version")
    bare = imports(healthy(), "megatron", copy("/m", "/", "training"))
    assert run("megatron-mindspeed-pair", bare)[0].level is Level.SKIPPED


def test_a_package_version_that_lies() -> None:
    facts = mindspeed(healthy(), branch="core_r0.18.0")
    only("mindspeed-version-lies", facts, Level.WARNING, "reports version 0.12.1", "0.18")
    alone = packages(facts, gone=("mcore-bridge",))
    only("mindspeed-version-lies", alone, Level.OK, "wrong conclusion")
    unseen = packages(facts, gone=("mindspeed",))
    only("mindspeed-version-lies", unseen, Level.WARNING, "0.12.1")
    only("mindspeed-version-lies", mindspeed(healthy(), branch="dev"), Level.UNKNOWN)


def test_megatron_reports_another_version_than_its_tag() -> None:
    tag = GitState(root="/m", refs=("core_v0.17.0",))
    only("megatron-tag-selfreport", megatron(healthy(), "0.17.0rc0", tag), Level.OK, "core_v0.17.0")
    assert "reports the version" in run("megatron-tag-selfreport", healthy())[0].title
    assert run("megatron-tag-selfreport", megatron(healthy(), "0.17.0"))[0].level is Level.SKIPPED


def test_python_for_megatron() -> None:
    only("python-megatron", megatron(healthy(), "0.18.2"), Level.ERROR, "needs Python >=3.12")
    only("python-megatron", megatron(healthy(), "0.17.1"), Level.WARNING, "needs Python >=3.12")
    only("python-megatron", megatron(healthy(), "0.18.9"), Level.ERROR)
    assert run("python-megatron", megatron(healthy(), "0.16.7"))[0].level is Level.OK
    only("python-megatron", megatron(healthy(), "7.0"), Level.UNKNOWN, "no table")


def test_numpy_that_mindspeed_refuses() -> None:
    finding = only(
        "numpy-bound", packages(healthy(), dist("numpy", "1.26.4")), Level.WARNING, "1.26.4"
    )
    assert finding.remedy is not None
    assert finding.remedy.commands == ("/venv/bin/python -m pip install 'numpy<=1.26.0'",)


def test_a_stack_that_mindspeed_does_not_document_is_a_note() -> None:
    facts = having(healthy(), "python", version="3.12.1")
    facts = packages(facts, dist("torch", "2.10.0"))
    finding = only(
        "mindspeed-stack", facts, Level.OK, "documented with other versions", "torch 2.7.1"
    )
    assert "torch 2.10.0" in finding.observed


def test_missing_layers_of_0_17_are_named() -> None:
    facts = mindspeed(healthy(), branch="core_r0.17.0")
    only("megatron-adaptor", facts, Level.WARNING, "megatron_adaptor and transformer_engine")
    facts = imports(facts, "megatron_adaptor", copy("/a/megatron_adaptor", "/a"))
    only("megatron-adaptor", facts, Level.WARNING, "missing: transformer_engine")
    assert run("megatron-adaptor", healthy())[0].level is Level.SKIPPED


def test_mcore_bridge_and_megatron() -> None:
    facts = packages(healthy(), dist("mcore-bridge", "1.6.5"))
    finding = only(
        "mcore-bridge-range",
        facts,
        Level.ERROR,
        "mcore-bridge 1.6.5 does not take Megatron-core 0.12.1",
        ">=0.16,<0.20",
    )
    assert finding.remedy is not None
    assert finding.remedy.commands == (
        "/venv/bin/python -m pip install --no-deps mcore-bridge==1.2.3",
    )
    none = megatron(facts, "0.11.0")
    finding = only("mcore-bridge-range", none, Level.ERROR)
    assert finding.remedy is not None
    assert finding.remedy.commands == ()


def test_mcore_bridge_on_npus_has_no_0_18() -> None:
    facts = megatron(packages(healthy(), dist("mcore-bridge", "1.6.5")), "0.18.2")
    only("mcore-bridge-range", facts, Level.WARNING, "does not support Megatron-core 0.18.2")
    assert run("mcore-bridge-range", facts, "cuda")[0].level is Level.OK


def test_the_range_of_a_bridge_may_be_unknown() -> None:
    facts = packages(healthy(), dist("mcore-bridge", "1.99.0"))
    only("mcore-bridge-range", facts, Level.UNKNOWN, "not known")
    extra = dist(
        "mcore-bridge", "1.99.0", requires=("bad requirement !", "megatron-core>=9; extra == 'x'")
    )
    only("mcore-bridge-range", packages(healthy(), extra), Level.UNKNOWN)


def test_a_stack_as_documented_leaves_nothing_to_note() -> None:
    facts = having(healthy(), "python", version="3.10.14")
    assert "matches MindSpeed's documentation" in run("mindspeed-stack", facts)[0].title


def test_all_layers_of_0_17_are_there() -> None:
    facts = mindspeed(healthy(), branch="core_r0.17.0")
    for name in ("megatron_adaptor", "transformer_engine"):
        facts = imports(facts, name, copy(f"/a/{name}", "/a"))
    assert run("megatron-adaptor", facts)[0].level is Level.OK
