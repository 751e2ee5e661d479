"""--fix: what is safe is written, what is not is shown, and what works is left alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Command

LAUNCH = "torchrun --nproc_per_node 8 pretrain_gpt.py \\{}\n  --num-layers 8 \\\n  --bf16\n"
BROKEN = "#!/bin/bash\nTP = 8\n" + LAUNCH.format(" ") + "# é \\ \necho 'a \\ '\n"


def test_blanks_behind_backslashes_go_and_nothing_else(doctor: Command, tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    script.write_text(BROKEN, "utf-8")
    script.chmod(0o750)
    done = doctor("lint", "--fix", "train.sh", cwd=tmp_path)
    assert script.read_text("utf-8") == BROKEN.replace("gpt.py \\ \n", "gpt.py \\\n")
    assert script.stat().st_mode & 0o777 == 0o750
    assert "train.sh: 1 line mended" in done.stderr
    # What needs a decision is shown, and is still an error.
    assert "-TP = 8\n+TP=8\n" in done.stderr
    assert done.returncode == 1
    assert "shell-continued" not in done.stdout
    assert [path for path in tmp_path.iterdir() if path.is_file()] == [script]


def test_carriage_returns_go(doctor: Command, tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    script.write_bytes(LAUNCH.format("").replace("\n", "\r\n").encode() + b"# \xff\r\n")
    done = doctor("lint", "--fix", "--megatron", "0.15.3", "train.sh", cwd=tmp_path)
    assert script.read_bytes() == LAUNCH.format("").encode() + b"# \xff\n"
    assert done.returncode == 0
    again = doctor("lint", "--fix", "--megatron", "0.15.3", "train.sh", cwd=tmp_path)
    assert "mended" not in again.stderr


@pytest.mark.parametrize(
    ("line", "better"),
    [
        ("torchrun pretrain_gpt.py --num-layer 8 --bf16 --lr 1", "--num-layers 8"),
        ("NN=8\ntorchrun pretrain_gpt.py --num-layers NN", "--num-layers $NN"),
        ("NN=8; torchrun pretrain_gpt.py --num-layers $(NN)", "--num-layers ${NN}"),
        ("LAYERS=8; torchrun pretrain_gpt.py --num-layers ${LAYRES}", "--num-layers ${LAYERS}"),
        ("export A = 1; torchrun pretrain_gpt.py", "export A=1;"),
    ],
)
def test_the_rest_is_shown(doctor: Command, tmp_path: Path, line: str, better: str) -> None:
    script = tmp_path / "x.sh"
    script.write_text(line + "\n", "utf-8")
    done = doctor("lint", "--fix", "--megatron", "0.15.3", "x.sh", cwd=tmp_path)
    assert script.read_text("utf-8") == line + "\n"
    assert any(row.startswith("+") and better in row for row in done.stderr.split("\n"))


def test_a_diff_is_harmless(doctor: Command, tmp_path: Path) -> None:
    (tmp_path / "x.sh").write_text("A = '\x1b[31m'\ntorchrun pretrain_gpt.py\n", "utf-8")
    done = doctor("lint", "--fix", "x.sh", cwd=tmp_path)
    assert "\x1b" not in done.stderr + done.stdout
    assert "+A=" in done.stderr


def test_editors_name_what_they_pipe(doctor: Command, tmp_path: Path) -> None:
    options = ("lint", "-", "--stdin-filename", "my/train.sh", "--format", "json")
    done = doctor(*options, cwd=tmp_path, input=BROKEN)
    places = [
        each["place"]["file"] for each in json.loads(done.stdout)["findings"] if each["place"]
    ]
    assert set(places) == {"my/train.sh"}
    assert doctor("lint", "--fix", "-", cwd=tmp_path, input=BROKEN).returncode == 2
