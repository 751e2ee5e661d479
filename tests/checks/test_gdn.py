import msgspec
import pytest

from ascend_doctor.facts import GitState, Launch, PackageCopy, Snapshot
from tests.checks.levels import cannot_tell, passes, remedy_of, skips, warns
from tests.checks.machine import copy, dist, having, healthy, imports, packages, set_to


def megatron(facts: Snapshot, version: str) -> Snapshot:
    return imports(facts, "megatron", copy("/m/megatron", "/m", "core", core=version))


def unset(facts: Snapshot) -> Snapshot:
    return having(facts, "environment", variables={})


def test_an_old_megatron_has_no_gated_delta_net() -> None:
    finding = warns("gdn-needs-zero", unset(healthy()), "unset, which means 1", "Qwen3.5")
    assert remedy_of(finding).commands == ("export USE_MCORE_GDN=0",)
    warns("gdn-needs-zero", set_to(healthy(), USE_MCORE_GDN="1"), "is 1")
    new = megatron(unset(healthy()), "0.16.0")
    passes("gdn-needs-zero", new)


@pytest.mark.parametrize(
    ("version", "name", "read"),
    [
        ("4.0.4", "USE_MCORE_GDN", "SWIFT_USE_MCORE_GDN"),
        ("4.2.3", "SWIFT_USE_MCORE_GDN", "USE_MCORE_GDN"),
    ],
)
def test_the_name_that_is_not_read(version: str, name: str, read: str) -> None:
    facts = packages(healthy(), dist("ms-swift", version))
    set_one = having(facts, "environment", variables={name: "0"})
    finding = warns("gdn-env-old-name", set_one, f"{name} is set, but", f"reads {read}")
    assert remedy_of(finding).commands == (f'export {read}="${name}"', f"unset {name}")
    withheld = having(facts, "environment", variables={}, withheld=(name,))
    warns("gdn-env-old-name", withheld)
    both = having(facts, "environment", variables={name: "0", read: "0"})
    passes("gdn-env-old-name", both)


def test_ms_swift_3_has_no_such_variable() -> None:
    facts = packages(healthy(), dist("ms-swift", "3.11.3"))
    skips("gdn-env-old-name", facts)


def test_old_bridges_cannot_load_it_on_npus() -> None:
    facts = megatron(packages(healthy(), dist("mcore-bridge", "1.4.1")), "0.16.0")
    warns("gdn-one-on-npu-old-bridge", unset(facts), "mcore-bridge 1.4.1 cannot load")
    passes("gdn-one-on-npu-old-bridge", facts)
    newer = packages(unset(facts), dist("mcore-bridge", "1.4.2"))
    passes("gdn-one-on-npu-old-bridge", newer)
    skips("gdn-one-on-npu-old-bridge", unset(healthy()))


def test_the_bridge_that_calls_what_is_not_there() -> None:
    facts = packages(healthy(), dist("mcore-bridge", "1.2.2"))
    warns("qwen3-next-bridge-bug", facts, "mcore-bridge 1.2.2", "Qwen3-Next only")


def mindspeed(facts: Snapshot, branch: str) -> Snapshot:
    git = GitState(root="/s", branch=branch)
    return imports(
        facts, "mindspeed", PackageCopy(path="/s/mindspeed", entry="/s", kind="editable", git=git)
    )


@pytest.mark.parametrize(
    ("swift", "branch", "module"),
    [
        ("4.2.3", "core_r0.15.3", "mindspeed.lite.ops.triton.chunk_delta_h"),
        ("4.4.1", "2.3.0_core_r0.12.1", "mindspeed.ops.triton"),
    ],
)
def test_kernels_that_this_mindspeed_lacks(swift: str, branch: str, module: str) -> None:
    facts = mindspeed(packages(healthy(), dist("ms-swift", swift)), branch)
    passes("swift-fla-patch-missing", facts, module, branch)
    launch = Launch(present=True, options={"model": "Qwen/Qwen3-Next-80B-A3B"})
    warns("swift-fla-patch-missing", msgspec.structs.replace(facts, launch=launch), module, branch)


def test_kernels_that_are_there_or_not_known() -> None:
    facts = packages(healthy(), dist("ms-swift", "4.4.1"))
    there = mindspeed(facts, "core_r0.16.0")
    passes("swift-fla-patch-missing", there)
    cannot_tell("swift-fla-patch-missing", mindspeed(facts, "core_r0.14.0"))
    newer = packages(facts, dist("ms-swift", "4.5.2"))
    skips("swift-fla-patch-missing", newer)


def test_what_packing_would_need_is_a_note() -> None:
    bare = packages(healthy(), gone=("flash-linear-attention",))
    finding = passes("gdn-packing", bare, "would need flash-linear-attention")
    assert finding.title.endswith("flash-linear-attention")
    newest = packages(bare, dist("mcore-bridge", "1.6.5"))
    passes("gdn-packing", newest, "and transformers >=5.9.0 (here 5.2.0)")
