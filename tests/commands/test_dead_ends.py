"""Where an answer is no answer it says the one next thing to type, in both languages."""

import contextlib
import io
import re
import shlex
from pathlib import Path

import click
import pytest

from ascend_doctor.cli import doctor, run

_FAILED = "step 1 loss 2.3\ntorch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
_COMMAND = re.compile(
    r"`(ascend-doctor [^`]+)`|(?:Type next: |\u63a5\u4e0b\u6765\u8f93\u5165\uff1a|on every node: |"
    r"\u8bf7\u5728\u6bcf\u4e2a\u8282\u70b9\u4e0a\u8f93\u5165\uff1a|; |\uff1b)(ascend-doctor .*?)"
    r"(?: shows | builds |\u663e\u793a|\u53ef\u6784\u5efa|$)",
    re.MULTILINE,
)
# What is typed, and what to type next.
ENDS = {
    ("diagnose", "bad.log"): "diagnose bad.log ~/ascend/log",
    ("diagnose", "odd.log", "fine.log"): "diagnose odd.log fine.log ~/ascend/log",
    ("diagnose", "ascend/log"): "check",
    ("diagnose", "fine.log", "--exit-status", "137"): "diagnose fine.log ~/ascend/log",
    ("diagnose", "empty.log"): "diagnose ~/ascend/log",
    ("diagnose", "empty"): "diagnose ~/ascend/log",
    ("explain", "frobnicate"): "list",
    ("fleet", "check"): "check --nnodes 4 --node-rank 0 --rdzv-endpoint node0:29400",
    ("merge", "empty"): 'check --no-redact --format json -o "empty/$(hostname).json"',
    ("merge",): "merge reports",
    ("judge",): "judge node.json",
    ("judge", "empty"): "merge",
    ("judge", "fine.log"): "snapshot -o FILE",
    ("diff",): "diff good.json bad.json",
    ("run",): "run -- torchrun --nproc-per-node 8 train.py",
    ("matrix", "why"): "matrix why megatron-lm cann",
    ("fix", "-l", "0", "--only", "lora-etp"): "check -v",
    ("compare",): "compare --record DIR -- COMMAND",
    ("compare", "empty", "empty"): "compare --record empty -- COMMAND",
    ("plan", "--model", "Qwen3-8B", "--npus", "3", "--layout", "TP2"): "plan",
    ("stack", "list"): "setup",
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("empty", "ascend/log"):
        (tmp_path / name).mkdir(parents=True)
    texts = {"bad": _FAILED, "odd": "[ERROR] something odd\n", "fine": "step 1 loss 2.3\n"}
    for name, text in {**texts, "empty": ""}.items():
        (tmp_path / f"{name}.log").write_text(text)
    (tmp_path / "ascend/log/train.log").write_text(_FAILED)
    monkeypatch.chdir(tmp_path)


def answer(*typed: str) -> str:
    with (
        contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), "utf-8")) as out,
        contextlib.redirect_stderr(io.TextIOWrapper(io.BytesIO(), "utf-8")) as err,
    ):
        run(list(typed))
        texts = []
        for stream in (out, err):
            stream.flush()
            texts.append(stream.buffer.getvalue().decode())
    return "".join(texts)


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("typed", ENDS)
def test_a_dead_end_says_what_to_type_next(typed: tuple[str, ...], language: str) -> None:
    text = answer("--lang", language, *typed)
    commands = [first or second for first, second in _COMMAND.findall(text)]
    assert f"ascend-doctor {ENDS[typed]}" in commands, text


@pytest.mark.parametrize("following", sorted(set(ENDS.values())))
def test_what_is_to_be_typed_next_is_taken(following: str) -> None:
    name, *words = shlex.split(following)
    command = doctor.get_command(click.Context(doctor), name)
    while isinstance(command, click.Group):
        name, *words = words
        command = command.get_command(click.Context(command), name)
    assert command is not None
    if words:
        command.make_context(name, words)


def test_a_cause_that_is_known_needs_no_next_step(tmp_path: Path) -> None:
    log = tmp_path / "oom.log"
    log.write_text("RuntimeError: NPU out of memory. Tried to allocate 3 GiB (NPU 0; 60 GiB)\n")
    assert "Type next" not in answer("diagnose", str(log))
    assert "Type next" not in answer("diagnose", str(tmp_path / "fine.log"))


def test_a_simulated_machine_has_no_logs_of_cann(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASCEND_DOCTOR_SIMULATED", "1")
    assert "Type next" not in answer("diagnose", "bad.log")
