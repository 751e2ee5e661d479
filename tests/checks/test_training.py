from __future__ import annotations

import math
from typing import Any

import pytest

from ascend_doctor.checks import training
from ascend_doctor.data import Catalog
from ascend_doctor.facts import Snapshot
from ascend_doctor.findings import Finding, Level
from ascend_doctor.judge import Case, judge, registered
from ascend_doctor.probe_results import ProbeResult, ProbeRun, Wrong

EQUAL = {"dense tensor": 0.0, "dense data": 0.0, "expert tensor": 0.0, "expert data": 0.0}
GOOD: dict[str, Any] = {
    "losses": list(training.REFERENCE),
    "grad_norms": [1.0] * 10,
    "seconds": [0.1] * 10,
    "differences": EQUAL,
}
FIRST_STAGE = {**GOOD, "losses": [None] * 10}
STACK = {"megatron": "0.15.3", "through": "nothing"}


def judged(probe: str, *layouts: Any, check: str = "", **fields: Any) -> tuple[Finding, ...]:
    """One rank for each measurement."""
    ranks = tuple(
        ProbeResult(rank=rank, ok=True, values={**STACK, "layouts": one, **one}, **fields)
        for rank, one in enumerate(layouts)
    )
    run = ProbeRun(probe=probe, device="npu", world_size=len(ranks), exit_code=0, ranks=ranks)
    case = Case(facts=Snapshot(probes=(run,)), catalog=Catalog())
    return judge(case, [one for one in registered() if one.id == (check or probe)])


def trained(*ranks: dict[str, Any]) -> tuple[Finding, ...]:
    return judged("smoke-train", *({"TP2": one} for one in ranks))


def test_a_good_training_says_what_it_did() -> None:
    (finding,) = trained(FIRST_STAGE, GOOD)
    assert finding.level is Level.OK
    assert finding.found == (
        "2 ranks on npu: TP2; loss 4.87303 to 4.35281 in 10 steps; "
        "megatron.core 0.15.3, through nothing"
    )


def changed(key: str, index: int, value: object) -> dict[str, Any]:
    series = list(GOOD[key])
    series[index] = value
    return {**GOOD, key: series}


@pytest.mark.parametrize(
    ("rank", "title", "found"),
    [
        (changed("losses", 4, "nan"), "the loss is not finite", "from step 5 on, rank 1"),
        (changed("grad_norms", 2, "inf"), "the gradient norm is not finite", "from step 3 on"),
        (changed("grad_norms", 2, math.nan), "the gradient norm is not finite", "from step 3 on"),
        (
            {**GOOD, "differences": {**EQUAL, "expert tensor": 0.03}},
            "expert tensor parallel ranks hold different adapters",
            "differ by 0.03, seen on rank 1",
        ),
        (changed("grad_norms", 3, 1.1), "disagree about the gradient norm of step 4", "rank 1 1.1"),
        (changed("losses", 3, 4.65), "disagree about the mean loss of step 4", "rank 1 4.65"),
    ],
)
def test_a_rank_that_trains_something_else(rank: dict[str, Any], title: str, found: str) -> None:
    (finding,) = trained(GOOD, rank)
    assert finding.level is Level.ERROR
    assert title in finding.title
    assert found in finding.found


def test_a_nan_is_laid_to_the_rank_where_it_began() -> None:
    first, second = (
        {
            **changed("losses", 1, "nan"),
            "stage": 0,
            "place": f"npu:{rank}",
            "not_finite": [None, {"forward": 1, "event": event, "module": "qkv", "how": "result"}],
        }
        for rank, event in enumerate((9, 5))
    )
    (finding,) = trained(first, second)
    assert finding.ranks == (1,)
    assert finding.found == (
        "from step 2 on, it began on rank 1 (npu:1), in qkv, in forward pass 1"
    )
    nowhere = {**first, "not_finite": [None, None]}
    (finding,) = trained(nowhere, nowhere)
    assert finding.ranks == (0, 1)
    assert finding.found == (
        "from step 2 on, ranks 0, 1; the forward passes were finite: it began in the backward pass"
    )


@pytest.mark.parametrize(
    ("index", "value", "title", "because"),
    [
        (9, 4.9, "the loss does not fall under TP2", "Gradients do not reach"),
        (0, 4.9, "the loss is wrong under TP2 from step 1 on", "An operator"),
        (2, 4.6, "the loss is wrong under TP2 from step 3 on", "gradients are wrong"),
    ],
)
def test_losses_that_are_not_the_known_ones(
    index: int, value: float, title: str, because: str
) -> None:
    (finding,) = trained(changed("losses", index, value))
    assert finding.title == f"smoke-train: {title}"
    assert because in finding.because


def test_a_slow_step_is_a_warning_but_for_the_first() -> None:
    assert trained(changed("seconds", 0, 99.0))[0].level is Level.OK
    (finding,) = trained(changed("seconds", 5, 9.0))
    assert finding.level is Level.WARNING


def test_nothing_was_trained() -> None:
    assert judged("smoke-train", {})[0].level is Level.UNKNOWN
    (finding,) = judged("smoke-train", {}, skipped="megatron-core is not installed")
    assert finding.level is Level.SKIPPED
    assert "megatron-core is not installed" in finding.title


def test_groups_that_are_right_say_what_they_cost() -> None:
    layout = {"TP2": {"groups": 4, "bytes": 4 << 20, "seconds": 1.0}, "PP2": {"groups": 0}}
    (finding,) = judged("parallel-groups", layout)
    assert finding.level is Level.OK
    assert finding.found == (
        "1 ranks on npu: TP2, PP2; megatron.core 0.15.3, through nothing; "
        "1 MiB of device memory for a group"
    )


def test_groups_that_are_wrong() -> None:
    wrong = (Wrong(what="members of the ep group of rank 1, TP2", got="[0, 1]", wanted="[1]"),)
    (finding,) = judged("parallel-groups", {}, wrong=wrong)
    assert finding.level is Level.ERROR
    assert finding.found == "rank 0: members of the ep group of rank 1, TP2: [0, 1]"


@pytest.mark.parametrize(
    ("sums", "level"),
    [((3.0, 3.0), Level.OK), ((1.0, 2.0), Level.WARNING), ((3.0, None), Level.UNKNOWN)],
)
def test_a_float64_sum(sums: tuple[float | None, ...], level: Level) -> None:
    measured = [{"float64_sum": one} for one in sums]
    (finding,) = judged("parallel-groups", *measured, check="float64-allreduce")
    assert finding.level is level
    if level is Level.WARNING:
        assert finding.found == "sum of rank + 1: 1 on rank 0, 2 on rank 1"


def test_a_step_without_metrics() -> None:
    short = {**GOOD, "losses": GOOD["losses"][:9], "grad_norms": GOOD["grad_norms"][:9]}
    (finding,) = trained(short)
    assert finding.title == "smoke-train: 9 of 10 steps have metrics under TP2"


def test_a_larger_model_has_other_losses() -> None:
    larger = {**changed("losses", 2, 4.6), "usual": False}
    assert trained(larger)[0].level is Level.OK
    (finding,) = trained({**changed("losses", 9, 4.9), "usual": False})
    assert "does not fall" in finding.title


def test_a_layout_that_was_asked_for_and_not_trained() -> None:
    values = {**STACK, "layouts": {"TP2": GOOD}, "left_out": {"TP3": "it does not fit 4 ranks"}}
    run = ProbeRun(
        probe="smoke-train", exit_code=0, ranks=(ProbeResult(rank=0, ok=True, values=values),)
    )
    case = Case(facts=Snapshot(probes=(run,)), catalog=Catalog())
    (finding,) = judge(case, [one for one in registered() if one.id == "smoke-train"])
    assert finding.level is Level.WARNING
    assert finding.found == "it does not fit 4 ranks"
