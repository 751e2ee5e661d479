"""MindSpeed's branches on the Megatron-LM releases that they are for, and on others."""

import os
from pathlib import Path
from typing import Protocol

import msgspec
import pytest

from ascend_doctor.findings import Finding, Level
from ascend_doctor.probe_results import ProbeRun
from ascend_doctor.probing.schedule import plan
from ascend_doctor.simulator import Tree, build
from tests.acceptance.clones import unpack
from tests.probes.judged import judge_probes
from tests.probes.started import launch

# Seconds; the real trees are imported five times.
PATIENCE = 900.0


@pytest.fixture(scope="module")
def tree(examined_python: Path, simulator_cache: Path) -> Tree:
    return build(examined_python, cache=simulator_cache)


class On(Protocol):
    def __call__(self, probe: str, branch: str, tag: str) -> ProbeRun: ...


@pytest.fixture
def on(examined_python: Path, tree: Tree, tmp_path: Path) -> On:
    """Run a probe on a simulated machine, with both checkouts in front of the path."""

    def run(probe: str, branch: str, tag: str) -> ProbeRun:
        places = (
            unpack(tmp_path / "mindspeed", "Ascend/MindSpeed", branch, "mindspeed"),
            unpack(tmp_path / "megatron", "NVIDIA/Megatron-LM", tag, "megatron"),
        )
        base = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, places)),
            "OMP_NUM_THREADS": "1",
        }
        base.pop("TORCH_DEVICE_BACKEND_AUTOLOAD", None)
        env = tree.environment(base, soc="Ascend910B3", devices=8, memory_bytes=1 << 30)
        requests = plan(2, device="npu", nproc=1, python=str(examined_python), env=env)
        request = next(request for request in requests if request.probe == probe)
        return launch(msgspec.structs.replace(request, deadline=PATIENCE))

    return run


def only(run: ProbeRun, check: str) -> Finding:
    (finding,) = judge_probes(run, check=check)
    return finding


@pytest.mark.parametrize(
    ("branch", "tag", "patches", "lost"),
    [("2.3.0_core_r0.12.1", "core_v0.12.1", 88, 9), ("core_r0.15.3", "core_v0.15.3", 101, 0)],
)
def test_a_pair_that_fits(on: On, branch: str, tag: str, patches: int, lost: int) -> None:
    run = on("mindspeed-patches", branch, tag)
    version = tag.removeprefix("core_v")
    assert only(run, "stack-pair").observed == f"{patches} patches on megatron.core {version}"
    for check in ("import-order", "mindspeed-args", "first-repatch", "argv-leak"):
        assert only(run, check).level is Level.OK, only(run, check)
    assert "experts.GroupedMLP" in only(run, "first-repatch").observed
    finding = only(run, "repatch-keeps-patches")
    assert finding.level is (Level.ERROR if lost else Level.OK)
    assert finding.title.endswith(f"loses {lost} patches" if lost else "loses no patch")
    if lost:
        assert "FusedScaleMaskSoftmax.is_kernel_available" in finding.observed
        assert "VocabParallelCrossEntropy.calculate_predicted_logits" in finding.observed


@pytest.mark.parametrize(
    ("branch", "tag", "title", "observed"),
    [
        ("2.3.0_core_r0.12.1", "core_v0.15.3", "an older", "activation_recompute_forward"),
        ("core_r0.15.3", "core_v0.12.1", "a newer", "ProcessGroupCollection"),
        ("core_r0.16.0", "core_v0.16.1", "Triton", "triton"),
        ("core_r0.17.0", "core_v0.17.1", "MegatronAdaptor", "megatron_adaptor"),
    ],
)
def test_a_pair_that_does_not_fit(on: On, branch: str, tag: str, title: str, observed: str) -> None:
    run = on("mindspeed-patches", branch, tag)
    finding = only(run, "stack-pair")
    assert finding.level is Level.ERROR
    assert title in finding.title
    assert observed in finding.observed
    assert only(run, "repatch-keeps-patches").level is Level.SKIPPED


def test_attention_types_and_ring(on: On) -> None:
    run = on("mindspeed-forward", "core_r0.15.3", "core_v0.15.3")
    for check in ("type-strings", "use-flash", "cp-ring"):
        assert only(run, check).level is Level.OK, only(run, check)
    assert "Please set micro_batch_size" in only(run, "use-flash").observed
