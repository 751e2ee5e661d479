"""Models that launches name: their heads, layers and experts against the parallel sizes."""

import json
from pathlib import Path

import pytest

from ascend_doctor.errors import DataError
from ascend_doctor.findings import Finding, Level
from ascend_doctor.linting.inputs import subjects
from ascend_doctor.matrix.models import Model, every, find, find_named, find_near, sizes_of
from tests.checks.levels import remedy_of
from tests.linting.judged import CATALOG, judge_text

SWIFT = "NPROC_PER_NODE=8 megatron sft --model {} --tensor_model_parallel_size 2 {}\n"
VERL = (
    "python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path={} trainer.n_gpus_per_node=8 "
    "actor_rollout_ref.actor.megatron.tensor_model_parallel_size={} "
    "actor_rollout_ref.actor.megatron.pipeline_model_parallel_size={}\n"
)

NAMES = {
    "Qwen/Qwen3-8B": "qwen3-8b",
    "qwen3_8b_hf": "qwen3-8b",
    "/data/Qwen3-8B-mcore": "qwen3-8b",
    "Qwen/Qwen3-8B-Base": "qwen3-8b",
    "Qwen/Qwen3-14B-FP8": "qwen3-14b",
    "/home/user/Qwen3-4B_torch_dist/": "qwen3-4b",
    "Qwen/Qwen3-4B-Instruct-2507": "qwen3-4b",
    "Qwen/Qwen3-30B-A3B-Instruct-2507-FP8": "qwen3-30b-a3b",
    "Qwen/Qwen3-235B-A22B-Thinking-2507": "qwen3-235b-a22b",
    "Qwen/Qwen3-Coder-Next": "qwen3-next-80b-a3b",
    "Qwen/Qwen3-VL-8B-Instruct": "qwen3-vl-8b",
    "Qwen/Qwen3-Omni-30B-A3B-Instruct": "qwen3-omni-30b-a3b",
    "Qwen/Qwen3.5-4B": "qwen3.5-4b",
    "Qwen/Qwen3.5-397B-A17B": "qwen3.5-397b-a17b",
    "Qwen/Qwen2.5-7B-Instruct-AWQ": "qwen2.5-7b",
    "qwen2_5_7b_hf": "qwen2.5-7b",
    "Qwen/Qwen2.5-VL-72B-Instruct-GPTQ-Int4": "qwen2.5-vl-72b",
    "deepseek-ai/DeepSeek-R1": "deepseek-v3",
    "/weights/DeepSeek-R1-bf16": "deepseek-v3",
    "deepseek-ai/DeepSeek-V3.2": "deepseek-v3.2",
    "deepseek-ai/DeepSeek-V2-Lite": "deepseek-v2-lite",
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B": "qwen2.5-7b",
    "moonshotai/Kimi-K2-Thinking": "kimi-k2",
    "moonshotai/Moonlight-16B-A3B-Instruct": "moonlight",
    "meta-llama/Meta-Llama-3.1-8B-Instruct": "llama-3.1-8b",
    "meta-llama/Llama-3.3-70B-Instruct": "llama-3.1-70b",
    "llama-2-7b": "llama-2-7b",
    "meta-llama/Llama-2-7b-chat-hf": "llama-2-7b",
    "mistralai/Mixtral-8x7B-Instruct-v0.1": "mixtral-8x7b",
    "zai-org/GLM-4.7": "glm4.5-355b-a32b",
    "zai-org/GLM-5.2-FP8": "glm-5.2",
    "unsloth/gpt-oss-20b-BF16": "gpt-oss-20b",
}
UNKNOWN = (
    # Sources disagree about its layers and its key and value heads.
    "zai-org/GLM-4-32B-0414",
    # No source was read that gives sizes for these.
    "Qwen/Qwen3.5-4B-Base",
    "moonshotai/Kimi-K2-Instruct-0905",
    # Parts of models, and models with similar names.
    "Qwen3-30B-A3B-layer2",
    "Qwen2-57B",
    "qwen25-7b",
    "hf_model",
    "-hf",
    "",
)


def lint_script(script: str, *, allowed: bool = False) -> list[Finding]:
    judged = judge_text("train.sh", script, "0.16.1", allow=allowed)
    return [each for each in judged if each.check in {"run-model-sizes", "launch-resolved"}]


def titles(script: str) -> list[str]:
    return [each.title for each in lint_script(script) if each.level is Level.ERROR]


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
    (unknown,) = [each for each in lint_script(script) if each.level is Level.UNKNOWN]
    assert "run-model-sizes" in unknown.because
    assert "Unheard-7B" in unknown.observed
    assert not [each for each in lint_script(script, allowed=True) if each.level is Level.UNKNOWN]


def test_the_remedy_has_names_that_look_like_the_model() -> None:
    (unknown,) = [
        each
        for each in lint_script(SWIFT.format("Qwen/Qwen3.5-4B-Base", ""))
        if each.level is Level.UNKNOWN
    ]
    assert remedy_of(unknown).summary.startswith("Name one of Qwen3.5-4B, ")


def test_a_model_from_the_shell_is_no_unknown_name() -> None:
    (unknown,) = [
        each for each in lint_script(SWIFT.format('"$1"', "")) if each.level is Level.UNKNOWN
    ]
    assert "defaults in the script" in remedy_of(unknown).summary


@pytest.mark.parametrize(("name", "row"), [*NAMES.items()])
def test_lint_and_plan_know_the_same_models(name: str, row: str) -> None:
    (swift,) = subjects("train.sh", SWIFT.format(name, "").encode(), CATALOG)
    (verl,) = subjects("train.sh", VERL.format(name, 2, 1).encode(), CATALOG)
    assert swift.launch is not None
    assert verl.launch is not None
    model = find(CATALOG, name)
    assert model.id == row
    assert swift.launch.model_sizes == verl.launch.model_sizes == sizes_of(model)


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_another_model_may_have_is_not_judged(name: str) -> None:
    assert find_named(CATALOG, name) is None


@pytest.mark.parametrize("row", every(CATALOG), ids=lambda row: row.id)
def test_every_name_of_a_row_leads_to_it(row: Model) -> None:
    assert row.sources
    for name in (row.id, *row.names):
        for written in (name, name.upper(), f"/data/{name}/", f"{name}-mcore", f"{name}-FP8"):
            model = find_named(CATALOG, written)
            assert model is not None, written
            assert model.id == row.id, written


def test_near_names_have_most_words_of_the_name() -> None:
    near = find_near(CATALOG, "/data/Qwen3-30B-A3B-layer2")
    assert near[0] == "Qwen3-30B-A3B"
    assert len(near) == 3
    assert find_near(CATALOG, "my_checkpoint") == ()
    with pytest.raises(DataError, match=r"did you mean Qwen3-30B-A3B, "):
        find(CATALOG, "Qwen3-30B-A3B-layer2")
    with pytest.raises(DataError, match=r"give its config\.json instead"):
        find(CATALOG, "my_checkpoint")


def test_a_model_that_nothing_splits_need_not_be_known() -> None:
    script = "NPROC_PER_NODE=8 megatron sft --model example/Unheard-7B\n"
    assert not [each for each in lint_script(script) if each.level is Level.UNKNOWN]


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
