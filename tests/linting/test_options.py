"""Options by name and value, against the tables of the frameworks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_doctor.findings import Finding, Level
from ascend_doctor.judging.spelling import edit_distance, slip_of
from ascend_doctor.linting.exact import split_launches
from ascend_doctor.linting.inputs import subjects
from tests.linting.judged import CATALOG, judge_text

NAMES = {"run-flags-known", "run-option-values", "run-swift-options", "run-verl-keys"}
MEGATRON = "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 8 --bf16 --lr 1e-4 "
SWIFT = "NPROC_PER_NODE=8 megatron sft --model x "
VERL = "python -m verl.trainer.main_ppo trainer.n_gpus_per_node=8 "


def complaints(script: str, megatron: str = "0.15.3") -> list[Finding]:
    judged = judge_text("train.sh", script, megatron)
    return [each for each in judged if each.check in NAMES and each.level > Level.SKIPPED]


@pytest.mark.parametrize(
    ("script", "level", "right"),
    [
        (MEGATRON + "--tensor-model-paralel-size 2", Level.ERROR, "--tensor-model-parallel-size"),
        (MEGATRON + "--tensor_model_parallel_size 2", Level.ERROR, "--tensor-model-parallel-size"),
        (MEGATRON + "--use-fused-rmsnrom", Level.ERROR, "--use-fused-rmsnorm"),
        (MEGATRON + "--master_prot 29500", Level.ERROR, "--master_port"),
        (MEGATRON + "--my-own-option 3", Level.ERROR, "an option"),
        (MEGATRON + "--use-fused-rmsnorm --mm-data x --log-tps", Level.OK, ""),
        (MEGATRON + "--seed1 3", Level.ERROR, "an option"),
        (MEGATRON + "--hidden-size big", Level.ERROR, "a whole number"),
        (MEGATRON + "--min-lr 1,5", Level.ERROR, "a number"),
        (MEGATRON + "--fp16 true", Level.ERROR, "--fp16"),
        (MEGATRON + "--lr-decay-style cosin", Level.ERROR, "--lr-decay-style cosine"),
        (MEGATRON + "--seq-length --hidden-size 8", Level.ERROR, "a whole number"),
        (MEGATRON + "--hidden-size $H --lr-decay-style cosine --min-lr -1.e-5", Level.OK, ""),
        (SWIFT + "--tensor_model_paralell_size 2", Level.ERROR, "--tensor_model_parallel_size"),
        (SWIFT + "--tensor-model-parallel-size 2 --train_type lora", Level.OK, ""),
        ("swift sft --model x --learning_rat 1e-4", Level.ERROR, "--learning_rate"),
        ("swift sft --model x --my_thing 1e-4", Level.ERROR, ""),
        (VERL + "actor_rollout_ref.rollout.gpu_memory_utilisation=0.5", Level.ERROR, "gpu_memory_"),
        (
            VERL + "+actor_rollout_ref.rollout.gpu_memory_utilisation=0.5",
            Level.WARNING,
            "gpu_memory_",
        ),
        (VERL + "+actor_rollout_ref.rollout.my_own=0.5", Level.OK, ""),
        (
            "python -m own.train rllm.trainer.tesst_freq=2 trainer.nodes=1",
            Level.WARNING,
            "test_freq",
        ),
        ("python -m own.train trainer.nodes=1 trainer.total_epoch=2", Level.OK, ""),
        (VERL + "actor_rollout_ref.rollout.gpu_memory_utilization=0.5", Level.OK, ""),
    ],
)
def test_an_option_by_its_name_and_value(script: str, level: Level, right: str) -> None:
    findings = complaints(script)
    assert max((each.level for each in findings), default=Level.OK) is level
    assert len(findings) == (level is not Level.OK)
    for each in findings:
        assert each.required.startswith(right)
        assert each.location is not None
        assert each.location.line == 1


def test_without_a_release_all_are_judged_together() -> None:
    (finding,) = complaints(MEGATRON + "--tensor-model-paralel-size 2", "")
    assert finding.required == "--tensor-model-parallel-size"
    fork = "torchrun pretrain_gpt.py --num_layers 8 --hidden_size 8 --micro_batch_size 1 --fp16"
    assert complaints(fork, "") == []


@pytest.mark.parametrize(("megatron", "count"), [("", 0), ("0.7.0", 0), ("0.12.1", 1)])
def test_old_mindspeed_takes_a_fraction_as_rotary_base(megatron: str, count: int) -> None:
    assert len(complaints(MEGATRON + "--rotary-base 1000000.0", megatron)) == count


@pytest.mark.parametrize(
    ("name", "known", "slip"),
    [
        ("num-layer", ["num-layers"], "num-layers"),
        ("num-lyaers", ["num-layers"], "num-layers"),
        ("data-path2", ["data-path"], ""),
        ("tensor-paralel-siz", ["tensor-parallel-size"], "tensor-parallel-size"),
        ("freeze-ViT", ["freeze-vit"], ""),
        ("MASTER_HOST", ["MASTER_PORT"], ""),
        ("lora-dropout-p", ["lora-dropout"], ""),
    ],
)
def test_a_slip_of_the_hand(name: str, known: list[str], slip: str) -> None:
    assert slip_of(name, known) == slip


@given(st.text("ab-", max_size=8), st.text("ab-", max_size=8))
def test_distance_is_one(first: str, second: str) -> None:
    distance = edit_distance(first, second)
    assert distance == edit_distance(second, first)
    assert (distance == 0) == (first == second)
    assert abs(len(first) - len(second)) <= distance <= max(len(first), len(second))


@pytest.mark.parametrize(
    ("megatron", "level"),
    [("0.12.1", Level.OK), ("0.15.3", Level.ERROR), ("0.16.1", Level.ERROR), ("", Level.OK)],
)
def test_an_option_of_another_branch_of_mindspeed(megatron: str, level: Level) -> None:
    findings = complaints(MEGATRON + "--moe-alltoall-mc2 --moe-tp-extend-ep", megatron)
    assert max((each.level for each in findings), default=Level.OK) is level
    for each in findings:
        assert each.observed == "--moe-alltoall-mc2"
        assert each.required.startswith("MindSpeed 26.0.0_core_r0.12.1, ")


TRAINER = "torchrun train.py --per_device_train_batch_size 1 --learning_rate 1e-5 "


@pytest.mark.parametrize(
    ("script", "check"),
    [
        (VERL + "trainer.nnodes = 2", "run-override-values"),
        (VERL + "trainer.experiment_name=a=b", "run-override-values"),
        (VERL + "actor_rollout_ref.actor.optim=1e-6", "run-override-values"),
        (VERL + "data.train_files=\"['a,b=c']\" trainer.logger=[a,b] ++a.b=$A/$B/c ~data.seed", ""),
        ("torchrun --rdzv_conf timeout:9 train.py", "run-launcher-options"),
        ("torchrun --rdzv_conf timeout=9 --redirects 3 --tee 0:1,1:3 train.py", ""),
        ("torchrun --redirects stderr train.py", "run-launcher-options"),
        (TRAINER + "--save_strategy step", "run-trainer-values"),
        (TRAINER + "--save_strategy steps --bf16 true", ""),
        ("accelerate launch --num_processes auto train.py", "run-launcher-options"),
        ("accelerate launch --nproc_per_node 8 train.py", "run-launcher-options"),
        ("deepspeed --include a:0 --num_gpus 2 train.py", "run-launcher-options"),
        ("deepspeed --num_gpus eight train.py", "run-launcher-options"),
        ("deepspeed --num_gpus 8 train.py --num_gpus eight", ""),
        (TRAINER + "--bf16 true --fp16 true", "run-arguments"),
        (TRAINER + "--warmup_ratio 2", "run-arguments"),
    ],
)
def test_what_a_parser_refuses(script: str, check: str) -> None:
    wrong = {each.check for each in judge_text("a.sh", script) if each.level is Level.ERROR}
    assert wrong - {"run-verl-values"} == {check} - {""}


def test_tables_name_their_commits() -> None:
    names = {table.name for table in CATALOG.options.tables}
    assert {"MindSpeed", "MindSpeed-LLM", "MindSpeed-MM", "ms-swift", "verl"} <= names
    for table in CATALOG.options.tables:
        assert table.commits
        # MindSpeed-RL's are a class each.
        assert len(table.options) > (0 if "/" in table.name else 20)


@pytest.mark.parametrize(
    ("options", "refused"),
    [
        ("--fp16", "Megatron-LM refuses --bf16 with --fp16"),
        ("--train-iters 10 --rampup-batch-size 2 2 80", "Megatron-LM refuses --rampup-batch-size"),
        ("--train-iters 10 --lr-warmup-samples 0", ""),
        ("--save-interval 10 --save x", ""),
        ("--moe-expert-capacity-factor 1 --moe-token-dispatcher-type allgather", ""),
        ("--neat-pack", "MindSpeed-LLM refuses --neat-pack"),
        ("--neat-pack --reset-attention-mask", ""),
        ("--use-fused-rotary-pos-emb", ""),
        ("--use-fused-rotary-pos-emb --position-embedding-type none", "MindSpeed refuses"),
    ],
)
def test_what_validations_refuse(options: str, refused: str) -> None:
    judged = judge_text("train.sh", MEGATRON + options, "0.15.3")
    findings = [each for each in judged if each.check == "run-arguments"]
    titles = [each.title for each in findings if each.level is Level.ERROR]
    assert bool(titles) == bool(refused)
    assert all(title.startswith(refused) for title in titles[:1])
    assert all(each.refs for each in findings if each.level is Level.ERROR)


@pytest.mark.parametrize(
    "start",
    [
        "accelerate launch --fsdp_version 2 swift/cli/sft.py",
        "accelerate launch --num_processes 8 -m swift.cli.sft",
        "deepspeed --num_gpus 8 --module swift.cli.sft",
    ],
)
def test_options_before_the_program_are_those_of_its_launcher(start: str) -> None:
    assert complaints(f"{start} --model Qwen/Qwen3-8B\n") == []
    (wrong,) = complaints(f"{start} --modell Qwen/Qwen3-8B\n")
    assert wrong.check == "run-swift-options"


@pytest.mark.parametrize(
    "text",
    [
        "accelerate launch --config_file",
        "python -m accelerate.commands.launch train.py --config_file",
        "llamafactory-cli train --stage sft --lora_rank 8",
    ],
)
def test_a_launch_is_read_without_its_file(text: str) -> None:
    assert split_launches([*subjects("train.sh", text.encode(), CATALOG)])
