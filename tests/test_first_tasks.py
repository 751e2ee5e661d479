"""The first tasks of docs/first-tasks.md are answered today as the page has it."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest

from ascend_doctor.cli import run

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parent.parent / "docs" / "first-tasks.md"
_TASK = re.compile(r"^\$ (ascend-doctor .*)\n((?:(?!```).+\n?)*)", re.MULTILINE)
# They need an environment without torch, reports of a fleet, or another user than root.
_ELSEWHERE = {"check", "fix --dry-run", "rehearse", "diagnose logs-of-root"}
_ELSEWHERE |= {"merge --expect 'n[0-2]' fleet"}
_SCRIPT = r"""#!/bin/bash
export CUDA_DEVICE_MAX_CONNECTIONS=8
torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 5 \
    --hidden-size 960 --num-attention-heads 30 --tensor-model-parallel-size 4 \
    --pipeline-model-parallel-size 2 --seq-length 128 --max-position-embeddings 128 \
    --sequence-parallel --micro-batch-size 1 --global-batch-size 8
"""


def tasks() -> dict[str, str]:
    """What is typed behind the name of the doctor, and what it answers now."""
    tasks = {}
    for typed, answer in _TASK.findall(PAGE.read_text("utf-8")):
        now = answer.partition("\nnow ")[2] or answer
        tasks[typed.removeprefix("ascend-doctor ")] = now
    return tasks


TASKS = {typed: now for typed, now in tasks().items() if typed not in _ELSEWHERE}


def pieces(text: str) -> list[str]:
    """What stands between dots that stand for something left out, however it is wrapped."""
    return [" ".join(piece.split()) for piece in text.split("...") if piece.strip()]


def test_there_are_tasks() -> None:
    assert {*tasks()} >= _ELSEWHERE
    assert len(TASKS) > 14


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
def test_a_first_task_is_answered_as_the_page_has_it(typed: str) -> None:
    out = io.TextIOWrapper(io.BytesIO(), "utf-8")
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        run(shlex.split(typed))
        out.flush()
        answer = " ".join(out.buffer.getvalue().decode().split())
    for piece in pieces(TASKS[typed]):
        assert piece in answer, answer
        answer = answer[answer.index(piece) + len(piece) :]
