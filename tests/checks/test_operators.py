from typing import Any

import pytest

from ascend_doctor.checks.cann.probes import operators
from ascend_doctor.facts import Snapshot
from ascend_doctor.findings import Finding, Level
from ascend_doctor.judging.judge import Case, judge, list_registered
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.probe_results import ProbeResult, ProbeRun
from tests.checks.levels import remedy_of
from tests.probes.judged import judge_probes

FINE = {"differ": 0, "first": "all elements", "seconds": 0.1}
SOFT = {"value": 1e-3, "row_sum": 1e-3, "masked": 0.0, "gradient": 1e-3, "seconds": 0.1}
CRASH = {
    "error": "ChildProcessError: the process crashed with SIGSEGV",
    "output": "a\nb\n\nNonzeroV2 failed",
}


def only(probe: str, *, ok: bool = True, **values: Any) -> Finding:
    result = ProbeResult(ok=ok, values=values, error="" if ok else "ValueError: own")
    run = ProbeRun(probe=probe, device="npu", exit_code=0, ranks=(result,))
    (finding,) = judge_probes(run)
    return finding


def test_boolean_indexing_that_works_is_listed() -> None:
    finding = only("bool-index", cases={"where": FINE, "read": FINE})
    assert (finding.level, finding.observed) == (Level.OK, "compared on npu: where, read")


def test_a_crash_names_its_cases_and_a_remedy_that_was_seen_to_work() -> None:
    finding = only("bool-index", cases={"where": FINE, "read": CRASH, "write": CRASH})
    assert finding.level is Level.ERROR
    assert finding.title == "bool-index: read, write fail"
    assert "NonzeroV2 failed" in finding.observed
    assert "torch.where" in remedy_of(finding).summary


@pytest.mark.parametrize("where", [CRASH, {**FINE, "differ": 1}])
def test_where_is_no_remedy_where_it_fails_too(where: dict[str, Any]) -> None:
    finding = only("bool-index", cases={"where": where, "read": CRASH})
    assert finding.remedy is None


@pytest.mark.parametrize("probe", ["bool-index", "fused-softmax"])
def test_a_run_without_any_case_is_no_success(probe: str) -> None:
    assert only(probe).level is Level.UNKNOWN
    assert only(probe, ok=False).level is Level.ERROR


def test_a_fused_softmax_that_works() -> None:
    finding = only("fused-softmax", cases={"plain": SOFT, "fused bfloat16": SOFT})
    assert (finding.level, finding.observed) == (Level.OK, "plain, fused bfloat16; slowest 0.1 s")


@pytest.mark.parametrize(
    ("name", "case", "level", "text"),
    [
        ("fused bfloat16", {**SOFT, "masked": 0.5}, Level.ERROR, "masked off by 0.5"),
        ("fused bfloat16", {**SOFT, "gradient": "nan"}, Level.ERROR, "gradient off by nan"),
        ("fused bfloat16", {"error": "RuntimeError: tbe"}, Level.ERROR, "imported: tbe, te"),
        ("fused float32", {**SOFT, "value": 0.5}, Level.WARNING, "value off by 0.5"),
    ],
)
def test_a_fused_softmax_that_fails(
    name: str, case: dict[str, Any], level: Level, text: str
) -> None:
    packages = {"tbe": False, "te": False, "attr": True}
    finding = only("fused-softmax", cases={"plain": SOFT, name: case}, packages=packages)
    assert finding.level is level
    assert text in finding.observed
    assert "masked_softmax_fusion=False" in remedy_of(finding).summary


def test_the_unfused_softmax_is_no_remedy_where_it_fails_too() -> None:
    result = ProbeResult(ok=True, values={"cases": {"plain": CRASH, "fused float16": CRASH}})
    run = ProbeRun(probe="fused-softmax", ranks=(result,))
    case = Case(facts=Snapshot(probes=(run,)), catalog=Catalog())
    (fused_check,) = [check for check in list_registered() if check.run is operators.fused_softmax]
    assert [finding.remedy for finding in judge(case, [fused_check])] == [None, None]


CUT = {"error": "TimeoutError: no time left, 9 of 180 s"}


def test_a_case_for_which_the_probe_had_no_more_time_is_no_hang() -> None:
    finding = only("fused-softmax", cases={"plain": SOFT, "fused bfloat16": CUT})
    assert finding.level is Level.UNKNOWN
    assert finding.reason == "the probe had no more time for fused bfloat16"
    finding = only("fused-softmax", cases={"plain": SOFT, "fused bfloat16": CUT, "fused": CRASH})
    assert finding.level is Level.ERROR
    assert "bfloat16" not in finding.title


@pytest.mark.parametrize(
    ("outcome", "how"),
    [
        ({"error": "TimeoutError: no end after 180 s"}, "never ends; a first call compiles"),
        ({"error": "RuntimeError: x", "output": "No module named 'tbe'"}, "cannot be compiled"),
        ({"error": "RuntimeError: EZ9999: Inner Error!"}, "cannot be compiled"),
        ({"error": "RuntimeError: E19999: inner"}, "cannot be compiled"),
        ({"error": "ChildProcessError: the process crashed with SIGSEGV"}, "fails"),
        ({**SOFT, "value": 0.5}, "is wrong"),
    ],
)
def test_how_a_fused_softmax_fails_is_told(outcome: dict[str, Any], how: str) -> None:
    finding = only("fused-softmax", cases={"plain": SOFT, "fused bfloat16": outcome})
    assert finding.title == f"fused-softmax: fused bfloat16 {how}"
    assert finding.remedy is not None
