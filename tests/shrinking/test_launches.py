"""Real launches are shrunk as they were labelled (launches.yaml and to_steps.yaml of rehearsals).

ASCEND_DOCTOR_TEST_LAUNCHES names a folder with clones as OWNER+NAME/repo. The launchers here only
print what they are given; that the launches step then is in docs/fidelity.md.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ascend_doctor.machine.parsing import read_yaml
from ascend_doctor.shrinking.programs import PROGRAMS, write_programs

CLONES = os.environ.get("ASCEND_DOCTOR_TEST_LAUNCHES", "")
LABELLED = Path(__file__).parent.parent / "rehearsals"
# What is made of a model's folder is told by those tests that have an interpreter for it.
LABELS = [
    label
    for name in ("launches.yaml", "to_steps.yaml")
    for label in read_yaml(LABELLED / name)
    if "model" not in label
]
ON_A_HUB = "the model is a name on a hub, not a folder"
NO_DATA = "fine-tuning on instructions has no mock data"


@pytest.mark.skipif(not CLONES, reason="ASCEND_DOCTOR_TEST_LAUNCHES names no folder with clones")
@pytest.mark.parametrize("label", LABELS, ids=lambda label: Path(label["path"]).stem)
def test_a_launch_is_shrunk_as_labelled(label: dict[str, Any], tmp_path: Path) -> None:
    clone = f"{CLONES}/{label['repository'].replace('/', '+')}/repo"
    show = ["git", "-C", clone, "show", f"{label['commit']}:{label['path']}"]
    script = subprocess.run(show, check=True, capture_output=True, timeout=120).stdout
    (tmp_path / "launch.sh").write_bytes(script)
    (tmp_path / "pretrain_gpt.py").touch()
    given = [f"given-{number}" for number in range(1, 6)]
    done = start(tmp_path, ["bash", "launch.sh", *label.get("words", given)])
    if not label["ranks"]:
        assert label["seen"] in done.stdout + done.stderr
        return
    if label["ends"] == NO_DATA:
        assert f"cannot shrink: --is-instruction-dataset: {NO_DATA}" in done.stdout + done.stderr
        return
    if label["ends"] == ON_A_HUB:
        assert "not a folder with a config.json" in done.stderr
        return
    words = done.stdout.split()
    assert f"--nproc-per-node={label['ranks']}" in words, done.stderr
    for name, value in label["options"].items():
        assert words[words.index(f"--{name}") + 1] == str(value), name
    assert "--mock-data" in words
    assert not [word for word in words if "your" in word or "given" in word]


def start(folder: Path, command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command where the launchers print their words, on 8 NPUs."""
    real = folder / "real"
    real.mkdir()
    for name in PROGRAMS:
        (real / name).write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
        (real / name).chmod(0o755)
    scratch = folder / "scratch"
    scratch.mkdir()
    path = f"{real}:{os.environ['PATH']}"
    return subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        cwd=folder,
        env={**os.environ, **write_programs(scratch, 8, str(real / "python"), path)},
    )
