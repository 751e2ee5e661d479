"""Models that launches name: their heads, layers and experts against the parallel sizes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ascend_doctor.checks import all_checks
from ascend_doctor.findings import Finding, Level
from ascend_doctor.linting.inputs import subjects
from ascend_doctor.linting.launch_checks import findings, machine, suits
from ascend_doctor.matrix.catalog import Catalog

CATALOG = Catalog()
CHECKS = tuple(check for check in all_checks() if suits(check))
SWIFT = "NPROC_PER_NODE=8 megatron sft --model {} --tensor_model_parallel_size 2 {}\n"
VERL = (
    "python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path={} trainer.n_gpus_per_node=8 "
    "actor_rollout_ref.actor.megatron.tensor_model_parallel_size={} "
    "actor_rollout_ref.actor.megatron.pipeline_model_parallel_size={}\n"
)


def judged(script: str, *, allowed: bool = False) -> list[Finding]:
    return [
        finding
        for each in subjects("train.sh", script.encode(), CATALOG)
        for finding in findings(
            each, machine("0.16.1", ""), CATALOG, CHECKS, allow_unresolved=allowed
        )
        if finding.check in {"run-model-sizes", "launch-resolved"}
    ]


def titles(script: str) -> list[str]:
    return [each.title for each in judged(script) if each.level is Level.ERROR]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "title"),
    [
        (SWIFT.format("Qwen/Qwen3-8B", ""), ""),
        (SWIFT.format("/data/Qwen3-30B-A3B", "--expert_model_parallel_size 4"), ""),
        (
            SWIFT.format("Qwen/Qwen3-30B-A3B", "--tensor_model_parallel_size 3"),
            "TP 3 does not divide the 32 attention heads of Qwen3-30B-A3B",
        ),
        (
            SWIFT.format("Qwen/Qwen3-30B-A3B", "--expert_model_parallel_size 3"),
            "EP 3 does not divide the 128 experts of Qwen3-30B-A3B",
        ),
        (
            SWIFT.format("Qwen/Qwen3-8B", "--expert_model_parallel_size 2"),
            "EP 2 does not divide the experts (none) of Qwen3-8B",
        ),
        (
            SWIFT.format("Qwen/Qwen3-8B", "--pipeline_model_parallel_size 5"),
            "PP 5 does not divide the 36 layers of Qwen3-8B",
        ),
        (
            VERL.format("$HOME/models/Qwen3-8B", 6, 1),
            "TP 6 does not divide the 32 attention heads of Qwen3-8B",
        ),
        (VERL.format("~/models/Qwen3-8B", 2, 5), "PP 5 does not divide the 36 layers of Qwen3-8B"),
    ],
)
def test_sizes_fit_the_model_that_is_named(script: str, title: str) -> None:
    script = script.replace("$HOME", "/root")
    assert titles(script) == ([title] if title else [])


def test_a_model_that_is_not_known_is_not_well() -> None:
    script = SWIFT.format("example/Unheard-7B", "")
    (unknown,) = [each for each in judged(script) if each.level is Level.UNKNOWN]
    assert "run-model-sizes" in unknown.because
    assert "Unheard-7B" in unknown.observed
    assert not [each for each in judged(script, allowed=True) if each.level is Level.UNKNOWN]


def test_a_model_that_nothing_splits_need_not_be_known() -> None:
    script = "NPROC_PER_NODE=8 megatron sft --model example/Unheard-7B\n"
    assert not [each for each in judged(script) if each.level is Level.UNKNOWN]


def test_a_folder_with_a_configuration_is_read(tmp_path: Path) -> None:
    sizes = {
        "num_hidden_layers": 10,
        "num_attention_heads": 7,
        "hidden_size": 896,
        "intermediate_size": 1024,
        "vocab_size": 1000,
    }
    (tmp_path / "config.json").write_text(json.dumps(sizes))
    assert titles(SWIFT.format(tmp_path, "")) == [
        f"TP 2 does not divide the 7 attention heads of {tmp_path.name}"
    ]
