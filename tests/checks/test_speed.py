from typing import Any

import pytest

from ascend_doctor.findings import Finding, Level
from ascend_doctor.probe_results import ProbeResult, ProbeRun
from tests.probes.judged import judge_probes


def rank(number: int, host: str = "a", soc: str = "Ascend910B3", **values: Any) -> ProbeResult:
    return ProbeResult(rank=number, host=host, ok=True, values={"name": soc, **values})


def judge_rates(
    probe: str, *ranks: ProbeResult, device: str = "npu", simulated: bool = False
) -> tuple[Finding, ...]:
    run = ProbeRun(
        probe=probe, device=device, world_size=len(ranks), ranks=ranks, simulated=simulated
    )
    return judge_probes(run)


def several(*rates: float, name: str = "bfloat16") -> list[ProbeResult]:
    return [rank(number, rates={name: rate}) for number, rate in enumerate(rates)]


@pytest.mark.parametrize("probe", ["gemm", "hbm", "h2d"])
@pytest.mark.parametrize(
    ("rates", "level", "guilty"),
    [
        ((300.0, 300.0, 280.0, 301.0), Level.OK, ()),
        ((300.0, 300.0, 260.0, 301.0), Level.WARNING, (2,)),
        ((300.0, 300.0, 301.0, 100.0), Level.ERROR, (3,)),
    ],
)
def test_a_device_is_compared_with_the_others(
    probe: str, rates: tuple[float, ...], level: Level, guilty: tuple[int, ...]
) -> None:
    (finding,) = judge_rates(probe, *several(*rates))
    assert (finding.level, finding.ranks) == (level, guilty)


@pytest.mark.parametrize("where", [{"device": "cpu"}, {"simulated": True}])
def test_what_is_no_device_gets_no_verdict(where: dict[str, Any]) -> None:
    for probe in ("gemm", "soak"):
        values: Any = {"bfloat16": 1.0} if probe == "gemm" else [9.0] * 7 + [1.0] * 3
        slow: Any = {"bfloat16": 9.0} if probe == "gemm" else [9.0] * 10
        ranks = [rank(0, rates=slow), rank(1, rates=slow), rank(2, rates=values)]
        (finding,) = judge_rates(probe, *ranks, **where)
        assert finding.level is Level.OK
        assert ("simulated" in finding.observed) is ("simulated" in where)


def test_a_family_gives_hints_and_no_verdicts() -> None:
    (finding,) = judge_rates("gemm", *several(100.0, 100.0))
    assert finding.level is Level.OK
    assert finding.because == (
        "Hint: 16-bit products are expected above half of Ascend910B3's peak, 295 TFLOPS."
    )
    (finding,) = judge_rates("hbm", *several(700.0, name="copy"))
    assert finding.because == "Hint: copies are expected above 800 GB/s on ascend910b."
    assert not judge_rates("hbm", *several(1200.0, name="copy"))[0].because
    assert not judge_rates("gemm", *several(200.0))[0].because


def sizes(bus: float) -> dict[str, Any]:
    return {"all-reduce": {"1024": {"busbw": 0.1}, str(1 << 28): {"busbw": bus}}}


@pytest.mark.parametrize(("bus", "hint"), [(30.0, True), (90.0, False)])
def test_bus_bandwidth_of_a_whole_node(bus: float, hint: bool) -> None:
    (finding,) = judge_rates("bandwidth", *(rank(index, rates=sizes(bus)) for index in range(8)))
    assert finding.level is Level.OK
    assert f"all-reduce {bus:.3g}" in finding.observed
    assert bool(finding.because) is hint
    (finding,) = judge_rates("bandwidth", *(rank(index, rates=sizes(bus)) for index in range(4)))
    assert not finding.because


def test_a_throttled_device() -> None:
    steady, falling = [300.0] * 10, [300.0] * 6 + [250.0] * 4
    ranks = [rank(index, rates=steady, rounds=9) for index in range(3)]
    assert [finding.level for finding in judge_rates("soak", *ranks)] == [Level.OK]
    findings = judge_rates("soak", *ranks, rank(3, rates=falling))
    assert [(finding.level, finding.ranks) for finding in findings] == [(Level.WARNING, (3,))] * 2
    assert findings[0].title == "soak: rank 3 gets slower while it works"


@pytest.mark.parametrize("probe", ["bandwidth", "gemm", "hbm", "h2d", "soak"])
def test_any_values_are_judged(probe: str) -> None:
    anything: tuple[Any, ...] = (None, [], {}, {"a": {"1": {}}}, {"a": None})
    for rates in anything:
        assert judge_rates(probe, rank(0, rates=rates))
