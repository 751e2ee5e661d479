from typing import Any

from ascend_doctor.facts import GitState, PackageCopy, Snapshot
from tests.checks.levels import cannot_tell, fails, passes, remedy_of, skips, warns
from tests.checks.machine import copy, dist, having, healthy, imports, packages, run


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
    finding = fails(
        "megatron-mindspeed-pair",
        facts,
        "MindSpeed core_r0.16.0 is for Megatron-core 0.16, imported is 0.15.3",
    )
    assert remedy_of(finding).commands == (
        "git -C '/src/M tree' fetch --tags",
        "git -C '/src/M tree' checkout core_v0.16.0",
    )
    passes("megatron-mindspeed-pair", megatron(facts, "0.16.2"))


def test_no_checkout_is_proposed_over_local_changes() -> None:
    dirty = GitState(root="/src/M", dirty=True)
    facts = megatron(mindspeed(healthy(), branch="core_r0.16.0"), "0.15.3", dirty)
    finding = fails("megatron-mindspeed-pair", facts)
    assert remedy_of(finding).commands == ()


def test_a_branch_that_the_table_lacks_still_tells_its_line() -> None:
    facts = megatron(mindspeed(healthy(), branch="core_r0.19.0"), "0.18.2", TREE)
    finding = fails("megatron-mindspeed-pair", facts, "for Megatron-core 0.19")
    assert "the line 0.19" in remedy_of(finding).summary


def test_the_branch_is_found_by_tag_by_commit_or_by_the_distribution() -> None:
    tag = megatron(mindspeed(healthy(), refs=("v26.0.0_core_r0.12.1",)), "0.16.0")
    fails("megatron-mindspeed-pair", tag, "0.12")
    remote = megatron(mindspeed(healthy(), refs=("master",)), "0.16.0")
    fails("megatron-mindspeed-pair", remote, "MindSpeed master is for")
    commit = megatron(mindspeed(healthy(), commit="f2b0977e"), "0.16.0")
    fails("megatron-mindspeed-pair", commit, "0.12")
    by_pip = dist("mindspeed", "0.12.1", commit="f2b0977ec85f0ce3906e34df1e1aafed7b22cafd")
    facts = packages(megatron(mindspeed(healthy()), "0.16.0"), by_pip)
    fails("megatron-mindspeed-pair", facts, "MindSpeed this branch is for")


def test_what_cannot_be_told_of_mindspeed_or_megatron() -> None:
    cannot_tell("megatron-mindspeed-pair", mindspeed(healthy()), "no git checkout")
    strange = mindspeed(healthy(), commit="1234567890abcdef")
    cannot_tell("megatron-mindspeed-pair", strange, "commit 1234567890ab")
    cannot_tell("megatron-mindspeed-pair", mindspeed(healthy(), branch="dev"), "line")
    cannot_tell("megatron-mindspeed-pair", megatron(healthy(), None), "its version")
    bare = imports(healthy(), "megatron", copy("/m", "/", "training"))
    skips("megatron-mindspeed-pair", bare)


def test_a_package_version_that_lies() -> None:
    facts = mindspeed(healthy(), branch="core_r0.18.0")
    warns("mindspeed-version-lies", facts, "reports version 0.12.1", "0.18")
    alone = packages(facts, gone=("mcore-bridge",))
    passes("mindspeed-version-lies", alone, "wrong conclusion")
    unseen = packages(facts, gone=("mindspeed",))
    warns("mindspeed-version-lies", unseen, "0.12.1")
    cannot_tell("mindspeed-version-lies", mindspeed(healthy(), branch="dev"))


def test_megatron_reports_another_version_than_its_tag() -> None:
    tag = GitState(root="/m", refs=("core_v0.17.0",))
    passes("megatron-tag-selfreport", megatron(healthy(), "0.17.0rc0", tag), "core_v0.17.0")
    assert "reports the version" in run("megatron-tag-selfreport", healthy())[0].title
    skips("megatron-tag-selfreport", megatron(healthy(), "0.17.0"))


def test_python_for_megatron() -> None:
    fails("python-megatron", megatron(healthy(), "0.18.2"), "needs Python >=3.12")
    warns("python-megatron", megatron(healthy(), "0.17.1"), "needs Python >=3.12")
    fails("python-megatron", megatron(healthy(), "0.18.9"))
    passes("python-megatron", megatron(healthy(), "0.16.7"))
    cannot_tell("python-megatron", megatron(healthy(), "7.0"), "no table")


def test_numpy_that_mindspeed_refuses() -> None:
    finding = warns("numpy-bound", packages(healthy(), dist("numpy", "1.26.4")), "1.26.4")
    assert remedy_of(finding).commands == ("/venv/bin/python -m pip install 'numpy<=1.26.0'",)


def test_a_stack_that_mindspeed_does_not_document_is_a_note() -> None:
    facts = having(healthy(), "python", version="3.12.1")
    facts = packages(facts, dist("torch", "2.10.0"))
    finding = passes("mindspeed-stack", facts, "documented with other versions", "torch 2.7.1")
    assert "torch 2.10.0" in finding.observed


def test_missing_layers_of_0_17_are_named() -> None:
    facts = mindspeed(healthy(), branch="core_r0.17.0")
    fails("megatron-adaptor", facts, "megatron_adaptor and transformer_engine")
    facts = imports(facts, "megatron_adaptor", copy("/a/megatron_adaptor", "/a"))
    warns("megatron-adaptor", facts, "missing: transformer_engine")
    skips("megatron-adaptor", healthy())


def test_mcore_bridge_and_megatron() -> None:
    facts = packages(healthy(), dist("mcore-bridge", "1.6.5"))
    finding = fails(
        "mcore-bridge-range",
        facts,
        "mcore-bridge 1.6.5 does not take Megatron-core 0.12.1",
        ">=0.16,<0.20",
    )
    assert remedy_of(finding).commands == (
        "/venv/bin/python -m pip install --no-deps mcore-bridge==1.2.3",
    )
    none = megatron(facts, "0.11.0")
    finding = fails("mcore-bridge-range", none)
    assert remedy_of(finding).commands == ()


def test_mcore_bridge_on_npus_has_no_0_18() -> None:
    facts = megatron(packages(healthy(), dist("mcore-bridge", "1.6.5")), "0.18.2")
    warns("mcore-bridge-range", facts, "does not support Megatron-core 0.18.2")
    passes("mcore-bridge-range", facts, device="cuda")


def test_the_range_of_a_bridge_may_be_unknown() -> None:
    facts = packages(healthy(), dist("mcore-bridge", "1.99.0"))
    cannot_tell("mcore-bridge-range", facts, "not known")
    extra = dist(
        "mcore-bridge", "1.99.0", requires=("bad requirement !", "megatron-core>=9; extra == 'x'")
    )
    cannot_tell("mcore-bridge-range", packages(healthy(), extra))


def test_a_stack_as_documented_leaves_nothing_to_note() -> None:
    facts = having(healthy(), "python", version="3.10.14")
    assert "matches MindSpeed's documentation" in run("mindspeed-stack", facts)[0].title


def test_all_layers_of_0_17_are_there() -> None:
    facts = mindspeed(healthy(), branch="core_r0.17.0")
    for name in ("megatron_adaptor", "transformer_engine"):
        facts = imports(facts, name, copy(f"/a/{name}", "/a"))
    passes("megatron-adaptor", facts)
