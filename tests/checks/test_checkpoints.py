from __future__ import annotations

from typing import Any

import pytest

from ascend_doctor.checks import every
from ascend_doctor.data import Catalog
from ascend_doctor.facts import Snapshot
from ascend_doctor.findings import Finding, Level
from ascend_doctor.judge import Case, judge
from ascend_doctor.probe_results import ProbeResult, ProbeRun

BEFORE: dict[str, Any] = {
    "losses": [4.5, 4.4, 4.3],
    "grad_norms": [1.0, 1.1, 1.2],
    "saved": {"digest": "ab", "evaluated": 4.8},
}
AFTER: dict[str, Any] = {
    "digest": "ab",
    "evaluated": 4.8,
    "losses": [4.4, 4.3],
    "grad_norms": [1.1, 1.2],
}


def judged(after: Any, *, device: str = "cpu") -> tuple[Finding, ...]:
    values: dict[str, Any] = {"layouts": {"TP2": BEFORE}}
    if after is not None:
        values["resumed"] = {"TP2": after, "megatron": "0.15.3"}
    ranks = (ProbeResult(rank=0, ok=True, values=values),)
    run = ProbeRun(probe="smoke-train", device=device, exit_code=0, ranks=ranks)
    case = Case(facts=Snapshot(probes=(run,)), catalog=Catalog(), device=device)
    return judge(case, [one for one in every() if one.id == "checkpoint"])


def test_a_training_that_goes_on() -> None:
    (finding,) = judged(AFTER)
    assert finding.level is Level.OK
    assert "1 ranks on cpu: TP2" in finding.found


def test_an_earlier_stage_of_a_pipeline_has_no_loss() -> None:
    assert judged({**AFTER, "evaluated": None, "losses": [None, None]})[0].level is Level.OK


@pytest.mark.parametrize(
    ("change", "title"),
    [
        ({"digest": "ac"}, "what was loaded is not what was saved under TP2"),
        ({"evaluated": 4.80001}, "the loss on unseen batches is another one"),
        ({"losses": [4.4, 4.31]}, "the loss of step 3 is another one after loading under TP2"),
        ({"grad_norms": [1.2, 1.2]}, "the gradient norm of step 2 is another one"),
        ({"losses": [4.4, "nan"]}, "the loss of step 3 is another one"),
    ],
)
@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_a_training_that_does_not(change: dict[str, Any], title: str, device: str) -> None:
    (finding,) = judged({**AFTER, **change}, device=device)
    assert finding.level is Level.ERROR
    assert title in finding.title
    assert finding.ranks == (0,)


def test_only_an_accelerator_may_be_off_by_its_order_of_sums() -> None:
    close = {**AFTER, "evaluated": 4.8 + 5e-7}
    assert [one.level for one in judged(close, device="npu")] == [Level.WARNING]
    assert [one.level for one in judged(close)] == [Level.ERROR]


@pytest.mark.parametrize("after", [None, 7])
def test_nothing_was_resumed(after: object) -> None:
    assert judged(after)[0].level is Level.UNKNOWN
