import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ascend_doctor.findings import Level
from ascend_doctor.probe_results import ProbeRun
from tests.probes.judged import judge_probes
from tests.probes.started import start_probe

PROBES = Path(__file__).parent.parent.parent / "probes"


@pytest.mark.parametrize("device", ["npu", "cuda"])
def test_the_cpu_answers_for_no_other_device(device: str) -> None:
    torch = SimpleNamespace()
    with pytest.raises(ValueError, match=f"not on {device}"):
        runpy.run_path(str(PROBES / "_cuda_on_cpu.py"))["install"](device, torch)
    assert not vars(torch)


# First and last loss of the reference, torch 2.13.0 on x86_64: ten steps, three in bfloat16.
LOSSES = {
    "TP2 EP2 ETP1": (5.656673933271287, 1.7187791399030643),
    "PP2 ETP1": (5.569007885781455, 0.5443939293373548),
    "no parallelism but DP": (5.60429622703414, 0.6152771580696034),
    "bfloat16 TP2 EP2 ETP1": (5.678319153886009, 4.504313797839832),
    "bfloat16 EP2 CP2 ETP1": (5.678319153886009, 4.504313797839832),
}


BF16 = "bfloat16 TP2 EP2 ETP1"


def judge_run(run: ProbeRun, check: str = "smoke-train") -> list[tuple[Level, str]]:
    return [(finding.level, finding.title) for finding in judge_probes(run, check=check)]


def test_two_ranks_train_what_one_would(forked_megatron: Path) -> None:
    run = start_probe(forked_megatron, "smoke-train", ranks=2)
    assert [level for level, _ in judge_run(run)] == [Level.OK]
    assert [level for level, _ in judge_run(run, "checkpoint")] == [Level.OK]
    first, second = (rank.values["layouts"] for rank in run.ranks)
    assert list(first) == [*LOSSES]
    assert first["PP2 ETP1"]["losses"] == [None] * 10
    # The reference must not drift with torch.
    assert {
        name: tuple(layout["reference"]["losses"][end] for end in (0, -1))
        for name, layout in second.items()
    } == {name: pytest.approx(losses, rel=1e-6) for name, losses in LOSSES.items()}
    resumed = second_of(run, "resumed")
    both = {"fully_reshardable", "fully_sharded_model_space"}
    assert set(resumed["PP2 ETP1"]["loaded"]) == both
    assert set(resumed["no parallelism but DP"]["loaded"]) >= both | {"dp_reshardable"}
    for name in ("PP2 ETP1", "no parallelism but DP"):
        assert set(resumed[f"{name} elsewhere"]["loaded"]) == both


def second_of(run: ProbeRun, key: str) -> dict[str, Any]:
    rows = run.ranks[1].values[key]
    assert isinstance(rows, dict)
    return rows


MUTATIONS = {
    "an optimizer that writes nothing": (
        "import torch\ntorch.optim.AdamW.step = lambda *_, **__: None",
        {
            "smoke-train: the loss is wrong under TP2 EP2 ETP1 from step 2 on",
            "smoke-train: the loss is wrong under PP2 ETP1 from step 2 on",
            "smoke-train: the loss is wrong under no parallelism but DP from step 2 on",
            "smoke-train: the loss is wrong under bfloat16 TP2 EP2 ETP1 from step 2 on",
            "smoke-train: the loss is wrong under bfloat16 EP2 CP2 ETP1 from step 2 on",
        },
    ),
    # What is marked as seen in parts is not summed over tensor parallel ranks.
    "gradients of parts of a sequence": (
        (
            "import importlib\n"
            "module = importlib.import_module('megatron.core.distributed.finalize_model_grads')\n"
            "module._allreduce_non_tensor_model_parallel_grads = lambda *_, **__: None"
        ),
        {
            "smoke-train: gradients are wrong under TP2 EP2 ETP1",
            "smoke-train: dense tensor parallel ranks hold different weights under TP2 EP2 ETP1",
            f"smoke-train: gradients are wrong under {BF16}",
            f"smoke-train: dense tensor parallel ranks hold different weights under {BF16}",
        },
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_training_is_found(forked_megatron: Path, tmp_path: Path, name: str) -> None:
    mutation, expected = MUTATIONS[name]
    run = start_probe(forked_megatron, "smoke-train", ranks=2, mutation=mutation, folder=tmp_path)
    assert {title for level, title in judge_run(run) if level is Level.ERROR} == expected


CHECKPOINTS = {
    # A process that only loads has never taken a step, and forgets what it was given.
    "moments are not restored": (
        (
            "import os, torch\n"
            "if 'ASCEND_DOCTOR_RESUME' in os.environ:\n"
            "    torch.optim.AdamW.load_state_dict = lambda *_: None"
        ),
        "",
        "the loss of step 10 is another one after loading under TP2 EP2 ETP1",
    ),
    "one bit of one weight": (
        "",
        "rank=1,stage=checkpoint of TP2,do=value",
        "what was loaded is not what was saved under TP2 EP2 ETP1",
    ),
}


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_broken_checkpoint_is_found(forked_megatron: Path, tmp_path: Path, name: str) -> None:
    mutation, fault, expected = CHECKPOINTS[name]
    run = start_probe(
        forked_megatron, "smoke-train", ranks=2, mutation=mutation, fault=fault, folder=tmp_path
    )
    assert [level for level, _ in judge_run(run)] == [Level.OK]
    assert judge_run(run, "checkpoint") == [(Level.ERROR, f"checkpoint: {expected}")]


def not_finite(run: ProbeRun) -> list[tuple[str, str, tuple[int, ...]]]:
    """Title, observation without the pass, and ranks of each finding about it."""
    return [
        (
            finding.title.partition(": ")[2],
            finding.observed.partition(", in forward pass")[0],
            finding.ranks,
        )
        for finding in judge_probes(run, check="smoke-train")
    ]


def test_a_weight_that_is_no_number_on_one_rank(forked_megatron: Path) -> None:
    fault = "rank=1,stage=step 3 of TP2,do=value"
    run = start_probe(forked_megatron, "smoke-train", ranks=2, fault=fault)
    where = "in a weight of decoder.layers.0.self_attention.linear_proj.first, before the step"
    assert not_finite(run) == [
        (
            "the loss is not finite under TP2 EP2 ETP1",
            f"from step 3 on, it began on rank 1, {where}",
            (1,),
        )
    ]
    # As in diagnosed logs.
    assert (
        "step 3 {'loss': nan, 'grad_norm': nan,"
        in (run.ranks[0].values["layouts"]["TP2 EP2 ETP1"]["output"])
    )


# A function of torch, the rank on which it fails, after how many steps of optimizers (two in each
# step of training with adapters on experts, ten such steps under a layout), and in which call.
SPOILER = """
import math, os, torch
from torch.optim.optimizer import register_optimizer_step_post_hook

steps = []
register_optimizer_step_post_hook(lambda *_: steps.append(1))

def spoil(owner, name, rank, after, number):
    original, calls = getattr(owner, name), []
    def spoilt(*arguments, **options):
        answer = original(*arguments, **options)
        if len(steps) == after:
            calls.append(1)
            if len(calls) == number:
                answer = answer.clone()
                answer.view(-1)[0] = math.nan
        return answer
    if os.environ.get("RANK") == rank and "ASCEND_DOCTOR_RESUME" not in os.environ:
        setattr(owner, name, spoilt)

"""
SPOILT = {
    # A column-parallel layer gives it to its own rank alone; a backward pass to no forward.
    "a product, and one of the backward pass": (
        'spoil(torch, "matmul", "1", 4, 1)\nspoil(torch.Tensor, "matmul", "1", 22, 1)',
        "it began on rank 1, in decoder.layers.0.self_attention.linear_qkv.base",
        (1,),
        "ranks 0, 1; the forward passes were finite: it began in the backward pass",
        (0, 1),
    ),
    # Rank 0 gets the first row of a row-parallel sum, whoever spoilt it.
    "a product whose rows are scattered, and a function between modules of the first stage": (
        'spoil(torch, "matmul", "1", 4, 3)\nspoil(torch, "cos", "0", 22, 1)',
        (
            "it began on rank 1, in what decoder.layers.0.self_attention.linear_proj.base gives "
            "to the other ranks"
        ),
        (1,),
        "it began on rank 0, in decoder.layers.0.self_attention, between the modules that it calls",
        (0,),
    ),
}


@pytest.mark.parametrize("name", SPOILT)
def test_a_nan_is_followed_to_where_it_began(
    forked_megatron: Path, tmp_path: Path, name: str
) -> None:
    mutation, tensor, tensor_ranks, pipeline, pipeline_ranks = SPOILT[name]
    mutation = SPOILER + mutation
    run = start_probe(forked_megatron, "smoke-train", ranks=2, mutation=mutation, folder=tmp_path)
    first, second = not_finite(run)
    assert first == (
        "the loss is not finite under TP2 EP2 ETP1",
        f"from step 3 on, {tensor}",
        tensor_ranks,
    )
    assert second[1:] == (f"from step 3 on, {pipeline}", pipeline_ranks)
