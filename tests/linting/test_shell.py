"""Mistakes of the shell itself: each at its line, and shellcheck held like any other program."""

import json
from pathlib import Path

import pytest

from ascend_doctor.errors import Unknown
from ascend_doctor.findings import Finding, Level
from ascend_doctor.linting import shellcheck
from ascend_doctor.linting.bash import commands, launches
from ascend_doctor.linting.shell_marks import find_placeholders
from ascend_doctor.linting.shellcheck import parse_shellcheck, run_shellcheck
from tests.conftest import Command
from tests.linting.judged import judge_text, mistakes

LAUNCH = "torchrun --nproc_per_node 8 pretrain_gpt.py \\\n  --num-layers 8 \\\n  --bf16\n"


def complaints(script: str) -> dict[tuple[str, int], Finding]:
    judged = judge_text("train.sh", script, "0.15.3", shellcheck=run_shellcheck)
    return {
        (finding.check, finding.location.line if finding.location else 0): finding
        for finding in mistakes(judged)
        if finding.check.startswith("shell-")
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "check", "line"),
    [
        ("torchrun x.py \\ \n  --bf16\n", "shell-continued", 1),
        ("torchrun x.py \\\n  --lr 1\n  --bf16\n", "shell-continued", 2),
        ("torchrun x.py \\\n  --lr 1 \\\n\n  --bf16\n", "shell-continued", 3),
        ("torchrun x.py \\\n  --lr 1 \\\n  # no \\\n  --bf16\n", "shell-continued", 3),
        ('A="--bf16"\ntorchrun x.py\n  $A\n', "shell-continued", 2),
        ('A=(\n --bf16\n)\ntorchrun x.py\n  "${A[@]}"\n', "shell-continued", 4),
        ("python -m verl.trainer.main_ppo a.b=1\n  trainer.nnodes=2\n", "shell-continued", 1),
        ("TP = 8\n" + LAUNCH, "shell-assignments", 1),
        ("TP= 8\n" + LAUNCH, "shell-assignments", 1),
        ("$TP=8\n" + LAUNCH, "shell-assignments", 1),
        ("export TP = 8\n" + LAUNCH, "shell-assignments", 1),
        (LAUNCH.replace("\n", "\r\n"), "shell-line-ends", 1),
        ('A="x\n' + LAUNCH, "shell-syntax", 1),
        ("if true; then\n" + LAUNCH, "shell-syntax", 1),
        ("A=“x”\n" + LAUNCH, "shell-syntax", 1),
        ("A=1\nB=<path to data>\n" + LAUNCH, "shell-syntax", 2),
        ("A=1\nexprot HCCL_EXEC_TIMEOUT=3600\n" + LAUNCH, "shell-assignments", 2),
        ("TP=8\nexport PORT=1\nexport PORT=2\n" + LAUNCH, "shell-set-once", 3),
        ("A=1\nB=xxxx # set it\n" + LAUNCH, "shell-placeholders", 2),
        ('A="<path/to/repo>"\n' + LAUNCH, "shell-placeholders", 1),
        ('A="--lr 1 \\\n --load <your_checkpoint> "\ntorchrun x.py $A\n', "shell-placeholders", 2),
        ("A=$pwd\n" + LAUNCH, "shell-names", 1),
        ("torchrun x.py \\\n  --lr 1\n  $@\n", "shell-continued", 2),
        ("A=\"--data-path '/x y'\"\ntorchrun x.py $A\n", "shell-quotes", 1),
        ("A=(--lr 1 --bf16)\ntorchrun x.py $A\n", "shell-arrays", 2),
        ("TP=8\ntorchrun x.py --tensor-model-parallel-size TP\n", "shell-names", 2),
        ("TP=8\ntorchrun x.py --tensor-model-parallel-size {TP}\n", "shell-names", 2),
        ("TP=8\ntorchrun x.py --tensor-model-parallel-size $(TP)\n", "shell-names", 2),
        ("LAYERS=8\ntorchrun x.py --num-layers $LAYRES\n", "shell-names", 2),
    ],
)
def test_a_mistake_of_the_shell_is_found_at_its_line(script: str, check: str, line: int) -> None:
    assert (check, line) in complaints(script)


@pytest.mark.parametrize(
    "script",
    [
        LAUNCH,
        'ARGS=(\n  --bf16 # yes\n  # --fp16\n)\ntorchrun x.py "${ARGS[@]}" \\\n',
        "torchrun x.py --lr 1 `# a comment` \\\n  --bf16\n",
        "sort <in >out\nA=${B:-x}\ntorchrun x.py --load <(echo 1) --bf16 2>&1 | tee log\n",
        "torchrun x.py --num-layers $LAYERS --lr ${LR:-1}\nN=1; echo $N $RANK\nRANKS=8\n",
        "CDPATH= cd /x\n" + LAUNCH,
        "A=1\nB=$((A + 1))\nA=2\nC=1\ntorchrun x.py $A $B $C\nC=2\n" + LAUNCH,
        'A=($(hosts))\necho "${A[@]}"\nA=$(IFS=,; echo "${A[*]}")\necho $A\n' + LAUNCH,
        "# DATA=<path>\necho 'give <path>'\n" + LAUNCH,
    ],
)
def test_what_works_is_no_mistake(script: str) -> None:
    assert complaints(script) == {}


def test_reading_goes_on_behind_a_placeholder() -> None:
    findings = complaints("DATA=<path to data>\nOUT=/x/<name>_ü\nTP = 8\n" + LAUNCH)
    assert set(findings) == {("shell-syntax", 1), ("shell-syntax", 2), ("shell-assignments", 3)}
    filled, marks = find_placeholders("ü=<a b>/c <d>".encode(), "x")
    assert filled.decode() == "ü=XXXXX/c XXX"
    assert [(mark.text, mark.location.column) for mark in marks] == [("<a b>", 3), ("<d>", 11)]


@pytest.mark.parametrize(
    "answer",
    ["", "[]", "{", '{"comments": 3}', '{"comments": [{}]}', '{"comments": [{"code": "x"}]}'],
)
def test_another_answer_is_could_not_tell(answer: str) -> None:
    with pytest.raises(Unknown, match="not its JSON"):
        parse_shellcheck(answer, "x")


def program(folder: Path, text: str) -> None:
    folder.mkdir(exist_ok=True)
    path = folder / "shellcheck"
    path.write_text("#!/bin/sh\n" + text, "utf-8")
    path.chmod(0o755)


def test_it_gets_no_configuration_and_a_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path / "bin"))
    monkeypatch.setenv("SHELLCHECK_OPTS", "--external-sources")
    program(tmp_path / "bin", f'echo "$@" "[$SHELLCHECK_OPTS]" > {tmp_path}/seen; echo "{{}}"\n')
    with pytest.raises(Unknown):
        run_shellcheck(b"echo 1", "x.sh")
    seen = (tmp_path / "seen").read_text("utf-8")
    assert seen.startswith("--norc --shell=bash --format=json1 -- ")
    assert "x.sh" not in seen
    assert "[]" in seen
    monkeypatch.setattr(shellcheck, "DEADLINE", 0.2)
    program(tmp_path / "bin", "exec sleep 60\n")
    with pytest.raises(Unknown, match="did not end"):
        run_shellcheck(b"echo 1", "x.sh")
    program(tmp_path / "bin", "exit 4\n")
    with pytest.raises(Unknown, match="ended with 4"):
        run_shellcheck(b"echo 1", "x.sh")
    with pytest.raises(Unknown, match="larger"):
        run_shellcheck(b"x" * (1 << 20), "x.sh")


def test_without_it_the_run_is_not_green(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    judged = judge_text("train.sh", LAUNCH, shellcheck=run_shellcheck)
    (finding,) = (each for each in judged if each.check == "shell-read")
    assert finding.level is Level.UNKNOWN
    assert finding.observed == "shellcheck is not installed"


@pytest.mark.slow
def test_a_repository_has_no_say(doctor: Command, tmp_path: Path) -> None:
    (tmp_path / ".shellcheckrc").write_text("disable=all\nexternal-sources=true\n", "utf-8")
    (tmp_path / "train.sh").write_text("TP = 8\n" + LAUNCH, "utf-8")
    done = doctor("lint", "train.sh", "--format", "json", cwd=tmp_path)
    findings = json.loads(done.stdout)["findings"]
    assert [
        finding["place"]["line"] for finding in findings if finding["check"] == "shell-assignments"
    ] == [1]
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ('P=bf16\n[ "$P" = bf16 ] && A="--bf16"\n[ "$P" = fp16 ] && A="--fp16"\n', ["--bf16"]),
        ('A=--bf16\nTP=8\n[[ $TP -gt 1 ]] || A="--fp16"\n', ["--bf16"]),
        ('TP=1\n[[ $TP -gt 1 ]] && A="--fp16" || A="--bf16"\n', ["--bf16"]),
        ('A="--bf16"\n[ -z "$A" ] && A="--fp16"\n', ["--bf16"]),
        ('cd /x && A="--bf16"\ncd /y || exit 1\n', ["--bf16"]),
        ('[ "$P" = bf16 ] && A="--bf16"\n', ["--bf16=\ufffc"]),
    ],
)
def test_lists_are_followed(script: str, words: list[str]) -> None:
    last = commands((script + "torchrun pretrain_gpt.py $A\n").encode())[-1]
    assert [word.text for word in last.words][2:] == words


def test_a_command_in_a_text_is_read_as_the_shell_reads_it() -> None:
    options = b"--num-layers '8' --data-path 'a b' --lr '\\$LR'"
    script = b'eval "cd /x && torchrun pretrain_gpt.py %s"\n' % options
    start = next(iter(launches(commands(script))))
    assert [word.text for word in start.words][2:6] == ["--num-layers", "8", "--data-path", "a b"]
    assert start.words[7].unresolved


def test_what_only_names_a_launcher_starts_nothing() -> None:
    script = b"pkill -9 -f torchrun \ngrep -q pretrain_gpt.py x\ncp pretrain_gpt.py /y\n"
    assert not list(launches(commands(script)))


@pytest.mark.parametrize(
    "script",
    [
        'torchrun x.py --image-token "<image>" --think "<think>" --sep "<|im_end|>"\n',
        "pwd=$(pwd)\ntorchrun x.py --save $pwd\n",
        'source env.sh\n"$@"\n',
    ],
)
def test_what_looks_like_a_slip_and_is_none(script: str) -> None:
    assert complaints(script) == {}


def test_a_placeholder_in_a_text_is_none() -> None:
    script = b"cat <<EOF\nusage: x <model> <data>\nEOF\necho 'a\n <b> c'\n"
    assert find_placeholders(script, "x.sh") == (script, ())
