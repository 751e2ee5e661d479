import math
from typing import Any

import pytest

from ascend_doctor.findings import Finding, Level
from ascend_doctor.probe_results import ProbeResult, ProbeRun, Wrong
from tests.probes.judged import judge_probes

EQUAL = {"dense tensor": 0.0, "dense data": 0.0, "expert tensor": 0.0, "expert data": 0.0}
LOSSES = [5.0, 4.0, 3.0, 2.5, 2.0, 1.5, 1.2, 1.0, 0.8, 0.6]
RIGHT = {"size": 2.0, "off": 1e-6, "factor": 1.0, "rest": 1e-6, "sharded": False}
GOOD: dict[str, Any] = {
    "losses": LOSSES,
    "grad_norms": [1.0] * 10,
    "reference": {"losses": LOSSES, "grad_norms": [1.0] * 10},
    "modules": {"embedding": [0, 0.0], "decoder.layers.0": [1, 1e-7]},
    "gradients": {"qkv": RIGHT, "norm": RIGHT},
    "micro_batches": 3,
    "data": 2,
    "tensor": 1,
    "seconds": [0.1] * 10,
    "differences": EQUAL,
}
FIRST_STAGE = {**GOOD, "losses": [None] * 10}
STACK = {"megatron": "0.15.3", "through": "nothing"}


def judge_probe(
    probe: str,
    *layouts: Any,
    check: str = "",
    ranks: tuple[ProbeResult, ...] = (),
    load: str = "",
    **fields: Any,
) -> tuple[Finding, ...]:
    ranks = ranks or tuple(
        ProbeResult(rank=rank, ok=True, values={**STACK, "layouts": layout, **layout}, **fields)
        for rank, layout in enumerate(layouts)
    )
    run = ProbeRun(
        probe=probe, device="npu", world_size=len(ranks), exit_code=0, ranks=ranks, load=load
    )
    return judge_probes(run, check=check or probe)


def judge_training(*ranks: dict[str, Any], load: str = "") -> tuple[Finding, ...]:
    return judge_probe("smoke-train", *({"TP2": rank} for rank in ranks), load=load)


def test_a_good_training_says_what_it_did() -> None:
    (finding,) = judge_training(FIRST_STAGE, GOOD)
    assert finding.level is Level.OK
    assert finding.observed == (
        "2 ranks on npu: TP2; losses, modules and gradients as in plain torch in every step; "
        "megatron.core 0.15.3, through nothing"
    )


def change_value(key: str, index: int, value: object) -> dict[str, Any]:
    series = list(GOOD[key])
    series[index] = value
    return {**GOOD, key: series}


@pytest.mark.parametrize(
    ("rank", "title", "observed"),
    [
        (change_value("losses", 4, "nan"), "the loss is not finite", "from step 5 on, rank 1"),
        (change_value("grad_norms", 2, "inf"), "the gradient norm is not finite", "from step 3 on"),
        (
            change_value("grad_norms", 2, math.nan),
            "the gradient norm is not finite",
            "from step 3 on",
        ),
        (
            {**GOOD, "differences": {**EQUAL, "expert tensor": 0.03}},
            "expert tensor parallel ranks hold different weights",
            "differ by 0.03, seen on rank 1",
        ),
        (
            change_value("grad_norms", 3, 1.1),
            "disagree about the gradient norm of step 4",
            "rank 1 1.1",
        ),
        (change_value("losses", 3, 2.51), "disagree about the mean loss of step 4", "rank 1 2.51"),
    ],
)
def test_a_rank_that_trains_something_else(rank: dict[str, Any], title: str, observed: str) -> None:
    (finding,) = judge_training(GOOD, rank)
    assert finding.level is Level.ERROR
    assert title in finding.title
    assert observed in finding.observed


def test_a_nan_is_laid_to_the_rank_where_it_began() -> None:
    first, second = (
        {
            **change_value("losses", 1, "nan"),
            "stage": 0,
            "place": f"npu:{rank}",
            "not_finite": [None, {"forward": 1, "event": event, "module": "qkv", "how": "result"}],
        }
        for rank, event in enumerate((9, 5))
    )
    (finding,) = judge_training(first, second)
    assert finding.ranks == (1,)
    assert finding.observed == (
        "from step 2 on, it began on rank 1 (npu:1), in qkv, in forward pass 1"
    )
    nowhere = {**first, "not_finite": [None, None]}
    (finding,) = judge_training(nowhere, nowhere)
    assert finding.ranks == (0, 1)
    assert finding.observed == (
        "from step 2 on, ranks 0, 1; the forward passes were finite: it began in the backward pass"
    )


def of_simulated(*ranks: dict[str, Any]) -> tuple[Finding, ...]:
    """Numbers of a CPU."""
    results = tuple(
        ProbeResult(rank=rank, ok=True, values={**STACK, "layouts": {"TP2": values}})
        for rank, values in enumerate(ranks)
    )
    run = ProbeRun(
        probe="smoke-train",
        device="npu",
        world_size=len(ranks),
        exit_code=0,
        simulated=True,
        ranks=results,
    )
    return judge_probes(run, check="smoke-train")


FORWARD = {"without rotary embedding": [5.01], "without the causal mask": [5.2]}
STEPS = {"gradients were not clipped": [*LOSSES[:2], 3.1, *LOSSES[3:]]}


@pytest.mark.parametrize(
    ("change", "title", "observed"),
    [
        (
            {**change_value("losses", 0, 5.01), "mistakes": FORWARD},
            "the loss is wrong under TP2 from step 1 on",
            "up to the loss itself; it is the loss of a model without rotary embedding",
        ),
        (
            {**GOOD, "modules": {"decoder.layers.0": [4, 0.2], "linear_qkv": [2, 0.3]}},
            "linear_qkv gives something else under TP2 from step 1 on",
            "loss 5.00000; the first to part is linear_qkv, off by 30.0% on ranks 0, 1",
        ),
        (
            {**GOOD, "modules": {"decoder.layers.0": [4, math.nan]}},
            "decoder.layers.0 gives something else under TP2 from step 1 on",
            "off by nan%",
        ),
        # Other shapes are not compared.
        ({**GOOD, "modules": {"decoder.layers.0": [4, -1.0]}}, "", ""),
        (
            {**change_value("losses", 2, 3.1), "mistakes": STEPS},
            "the loss is wrong under TP2 from step 3 on",
            "it trains as if gradients were not clipped",
        ),
        (
            {**GOOD, "reference": {"losses": LOSSES, "grad_norms": [2.0] * 10}},
            "the gradient norm is wrong under TP2",
            "1.00000 in the first step, 0.5 times what it should be",
        ),
    ],
)
def test_what_parts_from_the_reference(change: dict[str, Any], title: str, observed: str) -> None:
    (finding,) = of_simulated(change, change)
    if not title:
        assert finding.level is Level.OK
        return
    assert finding.title == f"smoke-train: {title}"
    assert observed in finding.observed


def gradient(factor: float, **fields: float) -> dict[str, Any]:
    return {**RIGHT, "off": 2 * abs(factor - 1), "factor": factor, **fields}


APART = {"off": 1.0, "factor": 0.7, "rest": 0.8}


@pytest.mark.parametrize(
    ("gradients", "observed"),
    [
        (
            {"qkv": gradient(2.0), "norm": gradient(2.0)},
            "all gradients are 2 times too large: those of the data parallel ranks are added up",
        ),
        (
            {"qkv": gradient(3.0), "norm": gradient(3.0)},
            "all gradients are 3 times too large: they are not divided by the number of micro-",
        ),
        ({"qkv": gradient(4.0), "norm": gradient(4.0)}, "all gradients are 4 times what they"),
        ({"qkv": gradient(0.0, rest=-1.0), "norm": RIGHT}, "they are zero; 1 of 2 weights"),
        ({"qkv": gradient(4.0), "norm": RIGHT}, "they are 4 times what they should be; 1 of 2"),
        (
            {"qkv": {**RIGHT, **APART, "own": 1e-6}, "norm": RIGHT},
            "each data parallel rank has the gradients of its own micro-batches",
        ),
        (
            {"embedding": {**RIGHT, **APART, "half": 1e-6}, "norm": RIGHT},
            "the tied embedding has on the first and on the last stage only",
        ),
        (
            {"qkv": {**RIGHT, **APART, "sharded": True}},
            "1 of 1 weights, qkv the most, off by 50.0%",
        ),
    ],
)
def test_wrong_gradients_get_a_name(gradients: dict[str, Any], observed: str) -> None:
    (finding,) = of_simulated({**GOOD, "gradients": gradients})
    assert finding.title == "smoke-train: gradients are wrong under TP2"
    assert finding.observed.startswith(observed)


def test_what_tensor_parallel_ranks_hold_in_common() -> None:
    norm = {**RIGHT, **APART}
    (finding,) = of_simulated(
        {**GOOD, "tensor": 2, "gradients": {"qkv": {**RIGHT, "sharded": True}, "norm": norm}}
    )
    assert finding.observed.startswith("only what tensor parallel ranks hold in common")


def test_hardware_may_round_later_losses() -> None:
    rounded = change_value("losses", 9, 0.61)
    assert judge_training(rounded)[0].level is Level.OK
    (finding,) = of_simulated(rounded)
    assert finding.title == "smoke-train: the loss is wrong under TP2 from step 10 on"


def test_a_slow_step_is_a_warning_but_for_the_first() -> None:
    assert judge_training(change_value("seconds", 0, 99.0))[0].level is Level.OK
    (finding,) = judge_training(change_value("seconds", 5, 9.0))
    assert finding.level is Level.WARNING
    assert judge_training(change_value("seconds", 5, 9.0), load="load 30")[0].level is Level.OK


def test_nothing_was_trained() -> None:
    assert judge_probe("smoke-train", {})[0].level is Level.UNKNOWN
    (finding,) = judge_probe("smoke-train", {}, skipped="megatron-core is not installed")
    assert finding.level is Level.SKIPPED
    assert "megatron-core is not installed" in finding.title


def test_groups_that_are_right_say_what_they_cost() -> None:
    layout = {"TP2": {"groups": 4, "bytes": 4 << 20, "seconds": 1.0}, "PP2": {"groups": 0}}
    (finding,) = judge_probe("parallel-groups", layout)
    assert finding.level is Level.OK
    assert finding.observed == (
        "1 rank on npu: TP2, PP2; megatron.core 0.15.3, through nothing; "
        "1 MiB of device memory for a group"
    )


def test_groups_that_are_wrong() -> None:
    wrong = (Wrong(what="members of the ep group of rank 1, TP2", got="[0, 1]", expected="[1]"),)
    (finding,) = judge_probe("parallel-groups", {}, wrong=wrong)
    assert finding.level is Level.ERROR
    assert finding.observed == "rank 0: members of the ep group of rank 1, TP2: [0, 1]"


@pytest.mark.parametrize(
    ("sums", "level"),
    [((3.0, 3.0), Level.OK), ((1.0, 2.0), Level.WARNING), ((3.0, None), Level.UNKNOWN)],
)
def test_a_float64_sum(sums: tuple[float | None, ...], level: Level) -> None:
    ranks = tuple(
        ProbeResult(rank=rank, ok=True, values={"float64_sum": total})
        for rank, total in enumerate(sums)
    )
    (finding,) = judge_probe("parallel-groups", check="float64-allreduce", ranks=ranks)
    assert finding.level is level
    if level is Level.WARNING:
        assert finding.observed == "sum of rank + 1: 1 on rank 0, 2 on rank 1"


def test_a_layout_that_was_asked_for_and_not_trained() -> None:
    values = {**STACK, "layouts": {"TP2": GOOD}, "left_out": {"TP3": "it does not fit 4 ranks"}}
    run = ProbeRun(
        probe="smoke-train", exit_code=0, ranks=(ProbeResult(rank=0, ok=True, values=values),)
    )
    (finding,) = judge_probes(run, check="smoke-train")
    assert finding.level is Level.WARNING
    assert finding.observed == "it does not fit 4 ranks"


BF16 = {"kind": {"bf16": True}, "dtypes": {"gradients": ["float32"], "optimizer": ["float32"]}}


def test_bfloat16_may_round_and_says_what_computed() -> None:
    kernels = {"attention": "npu_fusion_attention", "experts": "npu_grouped_matmul"}
    rounded = {
        **change_value("losses", 0, 5.002),
        **BF16,
        "modules": {"mlp": [1, 0.03]},
        "gradients": {"router": {**RIGHT, "off": 0.1}},
        "kernels": kernels,
    }
    (finding,) = of_simulated(rounded)
    assert finding.level is Level.OK
    assert finding.observed.endswith(
        "in bfloat16 with attention: npu_fusion_attention, experts: npu_grouped_matmul; no context "
        "parallelism, which takes an even number of ranks; megatron.core 0.15.3, through nothing"
    )
    context = {**rounded, "kernels": {**kernels, "context parallelism": "a ring"}}
    assert "context parallelism: a ring; megatron" in of_simulated(context)[0].observed


def test_what_lacks_bfloat16_says_so() -> None:
    reasons = {"bfloat16 TP2": "torch 2.7.1 has no grouped_mm"}
    values = {**STACK, "layouts": {"TP2": GOOD}, "not_run": reasons}
    rank = ProbeResult(rank=0, ok=True, values=values)
    run = ProbeRun(probe="smoke-train", device="cpu", exit_code=0, ranks=(rank,))
    (finding,) = judge_probes(run, check="smoke-train")
    assert finding.level is Level.OK
    assert "; not run: bfloat16 TP2, torch 2.7.1 has no grouped_mm; megatron" in finding.observed


@pytest.mark.parametrize(
    ("change", "title", "observed"),
    [
        (
            change_value("losses", 0, 5.01),
            "the loss is wrong under TP2 from step 1 on",
            "loss 5.01000;",
        ),
        (
            {
                "modules": {"mlp": [1, 0.2]},
                "alike": {"without the causal mask": 0.4, "with the halves swapped": 0.01},
            },
            "mlp gives something else under TP2 from step 1 on",
            "mlp, off by 20.0% on rank 0; it gives what it does in a model with the halves swapped",
        ),
        (
            {"gradients": {"qkv": {**RIGHT, **APART, "own": 0.9, "last": 0.02}}},
            "gradients are wrong under TP2",
            "they are those of the last micro-batch alone: micro-batches are not added up",
        ),
        (
            {"dtypes": {"gradients": ["bfloat16", "float32"], "optimizer": ["float32"]}},
            "gradients are added up and reduced in bfloat16 under TP2",
            "bfloat16 on rank 0",
        ),
        (
            {"dtypes": {"gradients": ["float32"], "optimizer": ["bfloat16"]}},
            "the optimizer updates weights of bfloat16 under TP2",
            "bfloat16 on rank 0",
        ),
        ({"steps": 11}, "10 of 11 steps have metrics under TP2", "of 10 steps on rank 0"),
    ],
)
def test_what_is_wrong_in_bfloat16(change: dict[str, Any], title: str, observed: str) -> None:
    (finding,) = of_simulated({**GOOD, **BF16, **change})
    assert finding.title == f"smoke-train: {title}"
    assert observed in finding.observed
