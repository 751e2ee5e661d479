"""Commands that a newcomer types, wrong guesses included, and their answers."""

import contextlib
import io
import shlex
from pathlib import Path

import pytest

from ascend_doctor.cli import run
from ascend_doctor.machine.parsing import read_yaml

pytestmark = pytest.mark.slow

TASKS = {
    row["typed"]: row["answer"]
    for row in read_yaml(Path(__file__).with_name("first_tasks.yaml"))["tasks"]
}
_SCRIPT = r"""#!/bin/bash
export CUDA_DEVICE_MAX_CONNECTIONS=8
torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 5 \
    --hidden-size 960 --num-attention-heads 30 --tensor-model-parallel-size 4 \
    --pipeline-model-parallel-size 2 --seq-length 128 --max-position-embeddings 128 \
    --sequence-parallel --micro-batch-size 1 --global-batch-size 8
"""


def pieces(text: str) -> list[str]:
    return [" ".join(piece.split()) for piece in text.split("...") if piece.strip()]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "report.json").write_text("{}")
    for folder in ("job", "empty", "bin"):
        (tmp_path / folder).mkdir()
    for name in ("train.py", "train.log", "train.sh"):
        (tmp_path / name).write_text("x = 1\n")
    (tmp_path / "train.pt").write_bytes(b"PK34\0")
    (tmp_path / "empty.sh").touch()
    (tmp_path / "job" / "train.sh").write_text(_SCRIPT)
    programs = tmp_path / "bin"
    (programs / "torchrun").write_text("#!/bin/sh\n")
    (programs / "torchrun").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv("COLUMNS", "100")


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("typed", TASKS)
def test_a_first_task_is_answered(typed: str) -> None:
    out = io.TextIOWrapper(io.BytesIO(), "utf-8")
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        run(shlex.split(typed))
        out.flush()
        answer = " ".join(out.buffer.getvalue().decode().split())
    for piece in pieces(TASKS[typed]):
        assert piece in answer, answer
        answer = answer[answer.index(piece) + len(piece) :]
