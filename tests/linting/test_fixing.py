"""--fix: what is safe is written, what is not is shown, and what works is left alone."""

import json
from pathlib import Path

import pytest

from tests.conftest import Command

LAUNCH = "torchrun --nproc_per_node 8 pretrain_gpt.py \\{}\n  --lr 1 \\\n  --bf16\n"
BROKEN = "#!/bin/bash\nTP = 8\n" + LAUNCH.format(" ") + "# é \\ \necho 'a \\ '\n"


@pytest.mark.slow
def test_what_is_meant_is_written_and_nothing_else(doctor: Command, tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    script.write_text(BROKEN, "utf-8")
    script.chmod(0o750)
    done = doctor("lint", "--fix", "train.sh", cwd=tmp_path)
    better = BROKEN.replace("gpt.py \\ \n", "gpt.py \\\n").replace("TP = 8", "TP=8")
    assert script.read_text("utf-8") == better
    assert script.stat().st_mode & 0o777 == 0o750
    assert "train.sh: 2 lines mended" in done.stderr
    assert {"-TP = 8", "+TP=8"} <= set(done.stderr.split("\n"))
    assert "shell-" not in done.stdout
    assert [path for path in tmp_path.iterdir() if path.is_file()] == [script]


@pytest.mark.slow
def test_two_mistakes_of_a_line_are_mended_one_behind_the_other(
    doctor: Command, tmp_path: Path
) -> None:
    """The option's name is judged once the shell reads the whole command."""
    sizes = "--hidden-size 64 --num-attention-heads 4 --seq-length 64 --micro-batch-size 1 --bf16"
    text = "torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-paralel-size 2 \\ \n"
    file = tmp_path / "a.sh"
    file.write_text(f"{text}  --num-layers 8 --max-position-embeddings 64 {sizes}\n")
    doctor("lint", "--fix", str(file), cwd=tmp_path)
    better = text.replace("paralel", "parallel").replace("\\ ", "\\")
    assert file.read_text().startswith(better)


def test_carriage_returns_go(doctor: Command, tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    script.write_bytes(LAUNCH.format("").replace("\n", "\r\n").encode() + b"# \xff\r\n")
    done = doctor("lint", "--fix", "--megatron", "0.15.3", "train.sh", cwd=tmp_path)
    assert script.read_bytes() == LAUNCH.format("").encode() + b"# \xff\n"
    assert done.returncode == 0
    again = doctor("lint", "--fix", "--megatron", "0.15.3", "train.sh", cwd=tmp_path)
    assert "mended" not in again.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "better"),
    [
        ("torchrun pretrain_gpt.py --num-layer 8 --bf16 --lr 1", "--num-layers 8"),
        ("NN=8\ntorchrun pretrain_gpt.py --num-layers NN", "--num-layers $NN"),
        ("NN=8; torchrun pretrain_gpt.py --num-layers $(NN)", "--num-layers ${NN}"),
        ("LAYERS=8; torchrun pretrain_gpt.py --num-layers ${LAYRES}", "--num-layers ${LAYERS}"),
        ("export A = 1\ntorchrun pretrain_gpt.py", "export A=1"),
        ("torchrun pretrain_gpt.py --num-layers24 --bf16 --lr 1", "--num-layers 24"),
        ("torchrun pretrain_gpt.py -bf16 --num-layers 8 --lr 1", " --bf16"),
        ("torchrun pretrain_gpt.py \u2013bf16 --num-layers 8", " --bf16"),
        ("TP=8\ntorchrun pretrain_gpt.py --lr '$TP' --num-layers 8", '"$TP"'),
        ("TP 8\ntorchrun pretrain_gpt.py --num-layers $TP", "TP=8"),
        ("epoxrt A=1\ntorchrun pretrain_gpt.py --num-layers $A", "export A=1"),
        ("A=(--bf16)\ntorchrun pretrain_gpt.py $A --num-layers 8", '"${A[@]}"'),
        ("torchrun pretrain_gpt.py --bf16\n  --num-layers 8", "--bf16 \\"),
        ("torchrun pretrain_gpt.py --bf16 true --num-layers 8", "--bf16 --num"),
        ("HCCL_CONNECT_TIMEOUT=900\ntorchrun pretrain_gpt.py --bf16", "export HCCL_"),
        ("export HCCL_CONNECT_TIMEOUT=900s\ntorchrun pretrain_gpt.py", "TIMEOUT=900"),
        ("if [ -d x; then\n  echo\nfi\ntorchrun pretrain_gpt.py", "if [ -d x ]; then"),
        ("while [[ -d x ;do # y\n  echo\ndone\ntorchrun pretrain_gpt.py", "[[ -d x ]];do # y"),
        ("X=8\nA=\"--bf16\n --num-layers '$X'\"\ntorchrun pretrain_gpt.py $A", "layers $X"),
        ('A=\u201cyour data path"\ntorchrun pretrain_gpt.py $A', 'A="your data path"'),
        (
            "python -m verl.trainer.main_ppo actor_rollout_ref.rollout.gpu_memory_utilisation=0.9",
            "rollout.gpu_memory_utilization=0.9",
        ),
    ],
)
def test_what_is_meant(doctor: Command, tmp_path: Path, line: str, better: str) -> None:
    script = tmp_path / "x.sh"
    script.write_text(line + "\n", "utf-8")
    done = doctor("lint", "--fix", "--megatron", "0.15.3", "x.sh", cwd=tmp_path)
    assert better in script.read_text("utf-8")
    assert any(row.startswith("+") and better in row for row in done.stderr.split("\n"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "TP=8 # $TP\ntorchrun pretrain_gpt.py --num-layers 24k\n",
        "FOO= bar baz\ntorchrun pretrain_gpt.py --bf16\n",
        "export CUDA_VISIBLE_DEVICES=0\ntorchrun pretrain_gpt.py --bf16\n",
        'X="abc\nif [ a; then\ntorchrun pretrain_gpt.py --bf16\n',
        "torchrun pretrain_gpt.py --fp16 --bf16 --num-layers 8\n",
        "export HCCL_CONNECT_TIMEOUT=900ms\ntorchrun pretrain_gpt.py --bf16\n",
        "HCCL_CONNECT_TIMEOUT=900 \\ # as before\ntorchrun pretrain_gpt.py --bf16\n",
        "A=1 \\\nHCCL_CONNECT_TIMEOUT=900\nB=2 \\\ntorchrun pretrain_gpt.py --bf16\n",
        "cat <<X\nif [ a; then ]\nX\ntorchrun pretrain_gpt.py --bf16\n",
    ],
)
def test_what_takes_a_decision_is_left(doctor: Command, tmp_path: Path, text: str) -> None:
    (tmp_path / "x.sh").write_text(text, "utf-8")
    doctor("lint", "--fix", "--megatron", "0.15.3", "x.sh", cwd=tmp_path)
    assert (tmp_path / "x.sh").read_text("utf-8") == text


@pytest.mark.slow
def test_a_diff_is_harmless(doctor: Command, tmp_path: Path) -> None:
    (tmp_path / "x.sh").write_text("A = '\x1b[31m'\ntorchrun pretrain_gpt.py\n", "utf-8")
    done = doctor("lint", "--fix", "x.sh", cwd=tmp_path)
    assert "\x1b" not in done.stderr + done.stdout
    assert "+A=" in done.stderr


@pytest.mark.slow
def test_editors_name_what_they_pipe(installed: Command, tmp_path: Path) -> None:
    options = ("lint", "-", "--stdin-filename", "my/train.sh", "--format", "json")
    done = installed(*options, cwd=tmp_path, input=BROKEN)
    places = [
        each["place"]["file"] for each in json.loads(done.stdout)["findings"] if each["place"]
    ]
    assert set(places) == {"my/train.sh"}
    assert installed("lint", "--fix", "-", cwd=tmp_path, input=BROKEN).returncode == 2


def test_slips_in_yaml_are_mended(doctor: Command, tmp_path: Path) -> None:
    file = tmp_path / "ppo.yaml"
    text = "actor_rollout_ref:\n  actor: {use_dynamic_bsz: Ture, ppo_mini_batch_sizee: 64}\n"
    file.write_text(text, "utf-8")
    doctor("lint", "--fix", "--allow-unresolved", "ppo.yaml", cwd=tmp_path)
    better = text.replace("Ture", "True").replace("sizee", "size")
    assert file.read_text("utf-8") == better
