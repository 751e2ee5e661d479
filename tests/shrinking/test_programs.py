import os
import subprocess
from pathlib import Path

from ascend_doctor.shrinking.programs import PROGRAMS, ProgramSettings, write_programs
from tests.programs import run_program

SMALL = "--num-layers 40 --seq-length 4096 --tensor-model-parallel-size 8"


def start(folder: Path, command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command on 8 NPUs; launchers print their words."""
    real = folder / "real"
    real.mkdir()
    for name in PROGRAMS:
        (real / name).write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
        (real / name).chmod(0o755)
    scratch = folder / "scratch"
    scratch.mkdir()
    path = f"{real}:{os.environ['PATH']}"
    settings = ProgramSettings(npus=8, python=str(real / "python"))
    return run_program(
        command,
        check=False,
        cwd=folder,
        env={**os.environ, **write_programs(scratch, path, settings)},
    )


def test_the_launcher_is_given_a_small_launch(tmp_path: Path) -> None:
    script = f"torchrun --nproc_per_node 8 train.py {SMALL}"
    done = start(tmp_path, ["sh", "-c", script])
    assert "--nproc-per-node=2" in done.stdout.split()
    assert "ascend-doctor: simulated: shrunk: --num-layers 40 to 2\n" in done.stderr


def test_other_commands_pass(tmp_path: Path) -> None:
    done = start(tmp_path, ["sh", "-c", "python3 -c 'print(1)' '' \"a b\"; exit 5"])
    assert done.stdout == "-c\nprint(1)\n\na b\n"
    assert done.stderr == ""
    assert done.returncode == 5


def test_a_model_that_is_not_here_is_named(tmp_path: Path) -> None:
    script = "NNODES=4 NPROC_PER_NODE=8 swift sft --model no/model --dataset a b"
    done = start(tmp_path, ["sh", "-c", script])
    assert done.returncode == 2
    assert "cannot shrink: no/model: not a folder" in done.stderr


def test_what_cannot_be_shrunk_is_not_started(tmp_path: Path) -> None:
    script = f"""
        printf '#!/bin/sh\\necho "\\033[31mno module megatron" >&2; exit 1\\n' > real/python
        torchrun train.py {SMALL} --is-pairwise-dataset
    """
    done = start(tmp_path, ["sh", "-c", script])
    assert (done.returncode, done.stdout) == (2, "")
    assert "cannot make instructions for the rehearsal" in done.stderr
    assert "\x1b" not in done.stderr


def test_its_launchers_see_as_many_npus_as_they_have_ranks(tmp_path: Path) -> None:
    model = tmp_path / "scratch" / "programs" / "models" / "model"
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    script = f"""
        mkdir -p {model}
        printf '#!/bin/sh\\necho $ASCEND_RT_VISIBLE_DEVICES $NPROC_PER_NODE\\n' > real/swift
        export NPROC_PER_NODE=4
        swift sft --model {tmp_path}/model --dataset a
        ASCEND_RT_VISIBLE_DEVICES=4,5,6,7 swift sft --model {tmp_path}/model --dataset a
    """
    done = start(tmp_path, ["sh", "-c", script])
    assert done.stdout == "0,1 2\n4,5 2\n", done.stderr
