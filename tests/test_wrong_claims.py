"""Claims that documents and habits make, against what the matrix says. One test a claim."""

from collections.abc import Callable
from typing import TypeVar

import pytest

from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.queries import choose, why
from ascend_doctor.matrix.schema import Release, WrongRef
from ascend_doctor.matrix.versions import satisfies
from tests.present import present

CATALOG = Catalog()
Test = TypeVar("Test", bound=Callable[..., None])
# Tests by the claim that they deny.
CLAIMS: dict[str, Callable[..., None]] = {}


def denies(claim: str) -> Callable[[Test], Test]:
    def mark(test: Test) -> Test:
        CLAIMS[claim] = test
        return test

    return mark


def row(component: str, version: str) -> Release:
    release = CATALOG.component(component).release(version)
    assert release is not None, f"{component} {version}"
    return release


def ranges(release: Release, component: str) -> list[str]:
    return [need.versions for need in release.requires if need.component == component]


def wrong(component: str, ref: str) -> WrongRef:
    return next(row for row in CATALOG.component(component).refs if row.ref == ref)


def shows(component: str, behaviour: str, version: str) -> bool:
    return CATALOG.component(component).behaviour(behaviour, version) is not None


@denies("the Megatron-LM ref v0.15.3 does not exist")
def test_megatron_v0_15_3_does_not_exist() -> None:
    ref = wrong("megatron-lm", "v0.15.3")
    assert ref.exists
    assert ref.use == "core_v0.15.3"
    assert (row("megatron-lm", ref.use).commit or "").startswith("309ffca6a4")


@denies("git checkout v0.16.0 (ms-swift v4.3.0)")
def test_checkout_v0_16_0() -> None:
    ref = wrong("megatron-lm", "v0.16.0")
    assert (ref.exists, ref.use) == (False, "core_v0.16.0")
    assert ranges(row("ms-swift", "4.3.0"), "megatron-lm") == ["==core_v0.16.0"]


@denies("git checkout core_r0.17.1 (MindSpeed 0.17 and 0.18 README)")
def test_checkout_core_r0_17_1() -> None:
    ref = wrong("megatron-lm", "core_r0.17.1")
    assert (ref.exists, ref.use) == (False, "core_v0.17.1")
    assert ranges(row("mindspeed", "core_r0.17.0"), "megatron-lm") == ["==core_v0.17.1"]


@denies("mcore-bridge main works with Megatron-LM 0.15.3 (twinkle docs)")
def test_mcore_bridge_main_works_with_megatron_0_15_3() -> None:
    accepting = [
        release.version
        for release in CATALOG.component("mcore-bridge").releases
        for bounds in ranges(release, "megatron-core")
        if satisfies("pep440", "0.15.3", bounds)
    ]
    assert "1.4.3" in accepting
    assert not any(satisfies("pep440", version, ">=1.5.0") for version in accepting)
    (bounds,) = ranges(row("twinkle", "0.4.0"), "mcore-bridge")
    assert {version for version in accepting if satisfies("pep440", version, bounds)} == {
        version for version in accepting if satisfies("pep440", version, ">=1.2.0")
    }


@denies(
    "NPU users must install the qwen3_5_npu branch of mcore-bridge (ms-swift 4.2.2 to 4.3.0 docs)"
)
def test_npu_users_need_the_branch_qwen3_5_npu() -> None:
    assert not wrong("mcore-bridge", "qwen3_5_npu").exists
    assert not shows("mcore-bridge", "npu-gdn-mask-fix", "1.2.0")
    assert shows("mcore-bridge", "npu-gdn-mask-fix", "1.2.1")
    assert shows("mcore-bridge", "qwen3-next-broken", "1.2.2")
    assert not shows("mcore-bridge", "qwen3-next-broken", "1.2.3")


@denies("USE_MCORE_GDN is off unless set")
def test_use_mcore_gdn_is_off_unless_set() -> None:
    releases = CATALOG.component("mcore-bridge").releases
    read = [release for release in releases if release.status != "unmapped"]
    assert {release.attributes["use_mcore_gdn_default"] for release in read} == {"1"}
    assert shows("ms-swift", "swift-use-mcore-gdn", "4.0.4")
    assert not shows("ms-swift", "swift-use-mcore-gdn", "4.1.0")
    assert shows("ms-swift", "use-mcore-gdn", "4.1.0")


@denies("ms-swift 4.2 with core_r0.15.3 uses MindSpeed's Triton GDN kernels")
def test_ms_swift_4_2_uses_the_triton_gdn_kernels_of_mindspeed_0_15_3() -> None:
    assert shows("ms-swift", "fla-lite-triton", "4.2.3")
    assert ranges(row("ms-swift", "4.2.3"), "mindspeed") == ["==core_r0.15.3"]
    assert row("mindspeed", "core_r0.15.3").attributes["lite_triton_gdn"] == "no"
    assert row("mindspeed", "2.3.0_core_r0.12.1").attributes["lite_triton_gdn"] == "yes"


@denies("flash-linear-attention 4.1.0 (ms-swift 4.2 docs)")
def test_flash_linear_attention_4_1_0() -> None:
    assert "0.x" in CATALOG.component("flash-linear-attention").note
    (need,) = (
        need
        for need in row("ms-swift", "4.2.0").requires
        if need.component == "flash-linear-attention"
    )
    assert need.versions == ""
    assert "4.1.0" in need.because


@denies("torch and torch_npu must be exactly the same version (twinkle docs)")
def test_torch_and_torch_npu_are_exactly_the_same_version() -> None:
    assert satisfies("pep440", "2.7.1", ranges(row("torch-npu", "2.7.1.post4"), "torch")[1])
    assert not satisfies("pep440", "2.7.0", ranges(row("torch-npu", "2.7.1.post4"), "torch")[1])


@denies("pip install torch==2.7.1 suits torch_npu everywhere")
def test_plain_torch_suits_torch_npu_everywhere() -> None:
    needs = [need for need in row("torch-npu", "2.7.1.post4").requires if need.component == "torch"]
    by_arch = {need.when["arch"]: need.versions for need in needs}
    assert not satisfies("pep440", "2.7.1", by_arch["x86_64"])
    assert satisfies("pep440", "2.7.1+cpu", by_arch["x86_64"])
    assert satisfies("pep440", "2.7.1", by_arch["aarch64"])


@denies("pip install mindspeed installs MindSpeed")
def test_pip_install_mindspeed_installs_mindspeed() -> None:
    hazard = next(hazard for hazard in CATALOG.hazards.hazards if hazard.name == "mindspeed")
    assert hazard.kind == "placeholder"
    assert satisfies("pep440", "0.0.1.dev1", hazard.versions)
    assert not satisfies("pep440", "0.12.1", hazard.versions)
    assert CATALOG.component("mindspeed").obtain.kind == "git"


@denies("megatron-core newer than 0.16.1 does not exist on PyPI")
def test_megatron_core_above_0_16_1_is_not_on_pypi() -> None:
    for version in ("0.17.0", "0.19.2"):
        assert row("megatron-core", version).attributes["pypi"] == "yes"
        assert ranges(row("megatron-core", version), "python") == [">=3.12"]
    assert ranges(row("megatron-core", "0.16.1"), "python") == [">=3.10"]


@denies("verl: NPU does not support router replay")
def test_npu_does_not_support_router_replay_in_verl() -> None:
    assert shows("verl", "router-replay-warning", "0.9.0")
    assert not shows("megatron-core", "verl-router-replay", "0.12.1")
    assert shows("megatron-core", "verl-router-replay", "0.14.0")
    assert shows("megatron-core", "verl-router-replay", "0.16.0")


@denies("set the checkpoint engine backend to hccl on NPU (verl)")
def test_the_checkpoint_engine_of_verl_is_called_hccl() -> None:
    behaviour = present(CATALOG.component("verl").behaviour("hccl-engine-is-nccl", "0.9.0"))
    assert "nccl" in behaviour.text


@denies("megatron-core below 0.13 has no expert tensor parallel")
def test_megatron_core_below_0_13_has_no_expert_tensor_parallel() -> None:
    assert shows("megatron-core", "expert-tp", "0.12.1")
    assert not shows("megatron-core", "expert-tp", "0.9.0")


@denies("the mindspeed package version tells the MindSpeed release or its Megatron line")
@pytest.mark.parametrize(
    "branch",
    ["26.1.0_core_r0.12.1", "26.0.0_core_r0.12.1", "master", "core_r0.17.0", "core_r0.18.0"],
)
def test_the_version_of_mindspeed_tells_its_release_or_line(branch: str) -> None:
    assert row("mindspeed", branch).reports == "0.12.1"


@denies("torch 2.7.1 can share an environment with vllm-ascend 0.14.0rc1")
def test_torch_2_7_1_shares_an_environment_with_vllm_ascend_0_14_0rc1() -> None:
    assert ranges(row("vllm-ascend", "0.14.0rc1"), "torch") == ["==2.9.0"]
    pair = why(CATALOG, choose(CATALOG, "vllm-ascend==0.14.0rc1"), choose(CATALOG, "torch==2.7.1"))
    assert [bond.fit for bond in pair if bond.kind != "set"] == ["outside"]


@denies("an NPU named 910B is an Atlas A2")
def test_an_npu_called_910b_is_an_atlas_a2() -> None:
    first, second = CATALOG.family_of("910B"), CATALOG.family_of("910B3")
    assert first is not None
    assert second is not None
    assert (first.id, first.bf16) == ("ascend910", False)
    assert (second.id, second.bf16) == ("ascend910b", True)
    assert CATALOG.family_of("Ascend910B") == first
