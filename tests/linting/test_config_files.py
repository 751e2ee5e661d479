"""Launches whose sizes stand in a file that is not read are not judged; others are left alone."""

from pathlib import Path

import pytest

from ascend_doctor.findings import Level
from tests.linting.test_rl import lint_file, spots

SPLIT = "parallel:\n  tp_size: 2\n  fully_shard_parallel_size: auto\n"
WHOLE = "parallel:\n  tp_size: 1\n  cp_size: 1\n  fully_shard_parallel_size: auto\nlr: 1e-5\n"


def unread(tmp_path: Path, command: str, content: str | None = None) -> list[str]:
    """What is reported as unknown of a script with this command."""
    script = tmp_path / "scripts/run.sh"
    script.parent.mkdir(exist_ok=True)
    script.write_text(f"{command}\n")
    if content is not None:
        (tmp_path / "conf").mkdir(exist_ok=True)
        for name in ("a.yaml", "a.json", "a.py"):
            (tmp_path / "conf" / name).write_text(content)
    findings = lint_file(script)
    for finding in findings:
        assert finding.level is not Level.UNKNOWN or finding.location is not None
    assert {check for _, check in spots(findings, Level.UNKNOWN)} <= {"launch-resolved"}
    return [finding.observed for finding in findings if finding.level is Level.UNKNOWN]


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("torchrun --nproc_per_node 8 train_fsdp2.py conf/a.yaml --lr 1e-4", "conf/a.yaml"),
        ("torchrun --nproc_per_node 8 -m own.train --config conf/a.yaml", "--config conf/a.yaml"),
        ("python train.py --cfg-path=conf/a.yaml", "--cfg-path=conf/a.yaml"),
        ("torchrun --nproc-per-node=8 -m xtuner.v1.train.cli.sft --config conf/a.py", "conf/a.py"),
        ("xtuner train conf/a.py --launcher pytorch", "conf/a.py"),
        ("llamafactory-cli train conf/a.yaml", "conf/a.yaml"),
        ("deepspeed train.py --args-file conf/a.json", "--args-file conf/a.json"),
        ("accelerate launch --config_file conf/a.yaml train.py", "--config_file conf/a.yaml"),
        ("megatron rlhf --use_ray true --config conf/a.yaml", "--config conf/a.yaml"),
        ("torchrun --nproc_per_node 8 pretrain_transformers.py conf/a.yaml", "conf/a.yaml"),
        ("accelerate launch --config_file $CONFIG train.py", "--config_file $CONFIG"),
        ("torchrun --nproc_per_node 8 -m own.train --job.config_file conf/a.toml", "conf/a.toml"),
        ("torchrun --nproc_per_node 8 -m own.train --config llama3_8b", "--config llama3_8b"),
        ("python start_rlvr.py --config_path conf --config_name rlvr", "--config_name rlvr"),
    ],
)
def test_the_word_that_names_the_file_is_told(tmp_path: Path, command: str, shown: str) -> None:
    for content in (None, SPLIT):
        observed = unread(tmp_path, command, content)
        assert len(observed) == 1
        assert shown in observed[0]


HYDRA = "import hydra\n@hydra.main(config_path='conf', config_name='a')\ndef main(cfg): ...\n"
FOREIGN = (
    "import hydra\n@hydra.main(config_path='pkg://own', config_name='a')\ndef main(cfg): ...\n"
)
MESH = "mesh = DeviceMesh.from_sizes(dp_size=2, tp_size=2)\n"
FLAT = "mesh = DeviceMesh.from_sizes(dp_size=1, tp_size=1)\nbatch_size = 8\n"


@pytest.mark.parametrize(
    ("command", "entry", "content", "judged_"),
    [
        ("torchrun --nproc_per_node 8 start.py", HYDRA, SPLIT, False),
        ("python start.py lr=1e-5", HYDRA, SPLIT, False),
        ("python -m start lr=1e-5", HYDRA, SPLIT, False),
        ("python start.py lr=1e-5", HYDRA, f"defaults:\n- b\n{WHOLE}", False),
        ("python train.py lr=1e-5", FOREIGN, WHOLE, False),
        ("python start.py lr=1e-5", HYDRA, WHOLE, True),
        ("torchrun --nproc_per_node 8 start.py", MESH, WHOLE, False),
        ("torchrun --nproc_per_node 8 start.py", FLAT, WHOLE, True),
        ("python start.py --settings conf/a.yaml", "", SPLIT, True),
        ("python start.py --config conf/a.yaml", "", SPLIT, False),
        ("python start.py --config conf/a.yaml", "", WHOLE, True),
        ("python convert.py --config conf/a.yaml", "", SPLIT, True),
    ],
)
def test_programs_have_configurations_of_their_own(
    tmp_path: Path, command: str, entry: str, content: str, judged_: bool
) -> None:
    for name in ("start.py", "train.py", "convert.py"):
        (tmp_path / name).write_text(entry)
    observed = unread(tmp_path, command, content)
    assert bool(observed) is not judged_


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("torchrun --nproc_per_node 8 train_cp.py --cp-size 2", "--cp-size 2"),
        ("python -m openrlhf.cli.train_ppo_ray --vllm.tensor_parallel_size 2", "parallel_size 2"),
        ("ray job submit -- python train.py --vllm_tensor_parallel_size 2", "parallel_size 2"),
        ("accelerate launch train.py --dp_shard_size=4", "--dp_shard_size=4"),
        ("deepspeed train.py --ulysses-parallel-size 2", "--ulysses-parallel-size 2"),
        ("torchrun --nproc_per_node 8 train_cp.py --cp-size 1", ""),
        ("torchrun --nproc_per_node 8 infer_cp.py --cp-size 2", ""),
        ("python train_cp.py --cp-size 2", ""),
    ],
)
def test_sizes_without_rules_are_not_judged(tmp_path: Path, command: str, shown: str) -> None:
    observed = unread(tmp_path, command)
    assert bool(observed) is bool(shown)
    assert all(shown in each for each in observed)


@pytest.mark.parametrize(
    "command",
    [
        "torchrun --nproc_per_node 8 train_fsdp2.py conf/a.yaml --lr 1e-4",
        "accelerate launch --config_file conf/a.yaml train.py",
        "llamafactory-cli train conf/a.yaml",
    ],
)
def test_what_splits_nothing_is_left_alone(tmp_path: Path, command: str) -> None:
    assert unread(tmp_path, command, WHOLE) == []
    assert unread(tmp_path, f"{command} --parallel.tp_size 2", WHOLE) != []


@pytest.mark.parametrize(
    "command",
    [
        "torchrun --nproc_per_node 8 train.py --lr 1e-4 --epochs 3",
        "torchrun --nproc_per_node 8 inference_fsdp2.py conf/b.yaml",
        "torchrun --nproc_per_node 8 flux_data_preprocess.py --config conf/b.yaml",
        "accelerate launch --num_processes 8 -m lm_eval --tasks mmlu --config conf/b.yaml",
        "swift infer --model Qwen/Qwen3-8B --vllm_tensor_parallel_size 2",
        "python train.py --data_path conf/b.json --deepspeed conf/zero.json",
    ],
)
def test_other_programs_are_left_alone(tmp_path: Path, command: str) -> None:
    assert unread(tmp_path, command) == []
