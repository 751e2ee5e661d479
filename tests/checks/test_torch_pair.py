import pytest

from ascend_doctor.facts import Snapshot
from ascend_doctor.findings import Finding, Level
from ascend_doctor.judging.judge import Case, judge
from ascend_doctor.probe_results import ProbeResult, ProbeRun
from tests.checks.machine import CATALOG, CHECKS
from tests.probes.judged import judge_probes


def pair(**modules: str) -> Finding:
    versions = {name: {"ok": True, "version": version} for name, version in modules.items()}
    result = ProbeResult(ok=True, values={"modules": versions} if modules else {})
    run = ProbeRun(probe="inspect-env", exit_code=0, ranks=(result,))
    (finding,) = judge_probes(run, check="torch-pair")
    return finding


@pytest.mark.parametrize(
    ("modules", "level"),
    [
        ({"torch": "2.7.1+cpu", "torch_npu": "2.7.1.post4"}, Level.OK),
        ({"torch": "2.13.0+cpu", "torch_npu": "2.13.0+gitabc"}, Level.OK),
        ({"torch": "2.7.1", "torch_npu": "2.7.0"}, Level.ERROR),
        ({"torch": "2.7.1"}, Level.SKIPPED),
        ({"torch": "2.7.1", "torch_npu": ""}, Level.UNKNOWN),
        ({}, Level.UNKNOWN),
    ],
)
def test_imported_torch_and_torch_npu_must_be_a_pair(modules: dict[str, str], level: Level) -> None:
    assert pair(**modules).level is level


def test_without_an_npu_nobody_needs_the_pair() -> None:
    (finding,) = judge(
        Case(facts=Snapshot(), catalog=CATALOG, device="cpu"), [CHECKS["torch-pair"]]
    )
    assert finding.level is Level.SKIPPED
