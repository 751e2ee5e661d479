"""The probes of devices, groups, operators and speed on the simulated NPU."""

import os
from pathlib import Path

import msgspec
import pytest

from ascend_doctor.checks import all_checks
from ascend_doctor.facts import Snapshot
from ascend_doctor.findings import Finding, Level
from ascend_doctor.judging.judge import Case, judge
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.probe_results import ProbeRun
from ascend_doctor.probing.schedule import Extent, plan, run_all
from ascend_doctor.simulator import build

OURS = {
    *("dtype", "flash-attention", "fused-ops", "fused-softmax", "bool-index", "single-process"),
    *("device-per-rank", "allreduce", "collectives", "bound-device-id", "object-collectives"),
    *("parallel-groups", "large-groups", "bandwidth", "gemm", "hbm", "h2d", "soak", "smoke-train"),
}


@pytest.fixture(scope="module")
def simulated(examined_python: Path, simulator_cache: Path) -> dict[str, str]:
    """The environment of a machine with two simulated NPUs."""
    tree = build(examined_python, cache=simulator_cache, kernels="ascend910b")
    base = {**os.environ, "PYTHONWARNINGS": "ignore"}
    base.pop("TORCH_DEVICE_BACKEND_AUTOLOAD", None)
    return tree.environment(base, soc="Ascend910B3", devices=2, memory_bytes=1 << 30)


def run(python: Path, env: dict[str, str], *probes: str) -> tuple[ProbeRun, ...]:
    extent = Extent(minutes=0.02, small=True)
    several = plan(4, device="npu", nproc=2, python=str(python), env=env, extent=extent)
    chosen = [request for request in several if request.probe in probes]
    return tuple(msgspec.structs.replace(run, simulated=True) for run in run_all(chosen))


def judge_runs(runs: tuple[ProbeRun, ...]) -> tuple[Finding, ...]:
    probes = {run.probe for run in runs}
    chosen = [check for check in all_checks() if check.probe in probes]
    return judge(Case(facts=Snapshot(probes=runs), catalog=Catalog()), chosen)


def test_all_pass_on_the_simulated_npu(examined_megatron: Path, simulated: dict[str, str]) -> None:
    runs = run(examined_megatron, simulated, *OURS)
    assert {run.probe for run in runs} == OURS
    findings = judge_runs(runs)
    bad = [
        (finding.check, finding.title, finding.observed)
        for finding in findings
        if finding.level not in {Level.OK, Level.SKIPPED}
    ]
    assert bad == []
    (bound, trained) = (
        finding for finding in findings if finding.check in {"bound-device-id", "smoke-train"}
    )
    assert trained.level is Level.OK
    # The real torch refuses a Gloo group beside a group that is bound to an NPU.
    assert "No backend type associated with device type npu" in bound.observed


def test_a_rank_without_a_device_is_named(examined_python: Path, simulated: dict[str, str]) -> None:
    env = {**simulated, "ASCEND_RT_VISIBLE_DEVICES": "1"}
    (device_run,) = run(examined_python, env, "device-per-rank")
    (finding,) = judge_runs((device_run,))
    assert finding.level is Level.ERROR
    assert finding.ranks == (1,)
    assert "no device for local rank 1: 1 npu visible" in finding.observed
