from typing import Any

import pytest

from ascend_doctor.findings import Finding, Level
from ascend_doctor.probe_results import ProbeResult, ProbeRun
from tests.probes.judged import judge_probes

GOOD = {"value": 6e-3, "gradient": 5e-3, "seconds": 0.1}
PLAIN = {"differ": 0, "sum": True, "product": 1e-7, "seconds": 0.1}
REFUSED = {"error": "RuntimeError: EZ9999 not implemented"}


def only(
    probe: str, device: str = "npu", soc: str = "", *, simulated: bool = False, **values: Any
) -> Finding:
    run = ProbeRun(
        probe=probe,
        device=device,
        exit_code=0,
        simulated=simulated,
        ranks=(ProbeResult(ok=True, values=values),),
    )
    device_run = ProbeRun(probe="device", ranks=(ProbeResult(ok=True, values={"name": soc}),))
    (finding,) = judge_probes(device_run, run)
    return finding


@pytest.mark.parametrize("probe", ["flash-attention", "fused-ops"])
@pytest.mark.parametrize(
    ("outcome", "level", "text"),
    [
        (GOOD, Level.OK, "compared on npu: some case"),
        ({**GOOD, "value": 0.5}, Level.ERROR, "value off by 0.5"),
        ({**GOOD, "gradient": "nan"}, Level.ERROR, "gradient off by nan"),
        ({"seconds": 0.1}, Level.ERROR, "no value"),
        (REFUSED, Level.ERROR, "EZ9999"),
    ],
)
def test_fused_operators(probe: str, outcome: dict[str, Any], level: Level, text: str) -> None:
    finding = only(probe, cases={"some case": outcome})
    assert finding.level is level
    assert text in finding.observed
    assert (finding.remedy is not None) == (level is Level.ERROR)


def test_a_kernel_that_is_not_simulated_is_no_fault() -> None:
    lacking = {"error": "RuntimeError: EZ9999: [PID: 7] aclnnTriu is not simulated: no kernel"}
    cases = {"sdpa causal": lacking, "packed": GOOD}
    finding = only("flash-attention", simulated=True, cases=cases)
    assert finding.level is Level.UNKNOWN
    assert finding.title == "Could not tell whether sdpa causal can be used"
    assert finding.observed == "the simulated NPU has no kernel for aclnnTriu"
    assert only("flash-attention", cases=cases).level is Level.ERROR


def test_failed_cases_are_told_together() -> None:
    finding = only("fused-ops", cases={"a": REFUSED, "b": GOOD, "c": REFUSED})
    assert finding.title == "fused-ops: a, c fail"


@pytest.mark.parametrize(
    ("soc", "name", "outcome", "level"),
    [
        ("Ascend910B3", "bfloat16", PLAIN, Level.OK),
        ("Ascend910B3", "bfloat16", REFUSED, Level.ERROR),
        ("Ascend910A", "bfloat16", REFUSED, Level.OK),
        ("Ascend910B3", "float8_e5m2", REFUSED, Level.OK),
        ("Ascend910B3", "float8_e5m2", {**PLAIN, "differ": 3}, Level.ERROR),
        ("Ascend950PR_9579", "float8_e5m2", REFUSED, Level.ERROR),
        ("Ascend910B3", "float64", {**PLAIN, "product_error": "RuntimeError: no"}, Level.OK),
        ("Ascend910B3", "float16", {**PLAIN, "product_error": "RuntimeError: no"}, Level.ERROR),
        ("Ascend910B3", "float64", {**PLAIN, "sum": False}, Level.ERROR),
        ("Ascend910B3", "float32", {**PLAIN, "product": 0.1}, Level.ERROR),
        ("Ascend910B3", "float32", {**PLAIN, "product": "nan"}, Level.ERROR),
    ],
)
def test_a_dtype_is_judged_by_the_chip(
    soc: str, name: str, outcome: dict[str, Any], level: Level
) -> None:
    assert only("dtype", soc=soc, cases={name: outcome}).level is level


def test_the_cpu_must_have_all_but_fp8() -> None:
    assert only("dtype", device="cpu", cases={"float64": REFUSED}).level is Level.ERROR
    finding = only("dtype", device="cpu", cases={"float32": PLAIN, "float8_e5m2": REFUSED})
    assert finding.observed == "float32; not float8_e5m2"


@pytest.mark.parametrize("outcome", [REFUSED, {"differ": 2}])
def test_a_kernel_names_whose_triton_it_is(outcome: dict[str, Any]) -> None:
    finding = only("triton-kernel", distributions=["triton 3.5.0"], cases={"sums": outcome})
    assert finding.level is Level.ERROR
    assert finding.because == "The module triton comes from triton 3.5.0."


@pytest.mark.parametrize(
    ("simulated", "error", "level"),
    [
        (True, "FileNotFoundError: [Errno 2] No such file or directory: 'npuc'", Level.UNKNOWN),
        (False, "FileNotFoundError: [Errno 2] No such file or directory: 'npuc'", Level.ERROR),
        (True, "RuntimeError: 0 active drivers ([]). There should only be one.", Level.ERROR),
    ],
)
def test_a_simulated_npu_compiles_no_kernels(*, simulated: bool, error: str, level: Level) -> None:
    cases = {"sums": {"error": error}}
    owners = ["triton-ascend 3.2.0"]
    finding = only("triton-kernel", simulated=simulated, cases=cases, distributions=owners)
    assert finding.level is level


@pytest.mark.parametrize(
    ("interpretation", "level"),
    [({"differ": 0}, Level.OK), ({"differ": 3}, Level.ERROR), (REFUSED, Level.UNKNOWN)],
)
def test_where_no_compiler_is_simulated_the_interpreter_tells(
    interpretation: dict[str, Any], level: Level
) -> None:
    cases = {"sums": {"error": "FileNotFoundError: No such file or directory: 'npuc'"}}
    owners = ["triton-ascend 3.2.0"]
    finding = only(
        "triton-kernel",
        simulated=True,
        cases=cases,
        interpretations={"sums": interpretation},
        distributions=owners,
    )
    assert finding.level is level
    if level is Level.OK:
        assert finding.observed == "triton-ascend 3.2.0, by its interpreter"
