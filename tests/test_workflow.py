"""The workflow runs what can be run here: it names no step that a laptop has not."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ascend_doctor.machine.parsing import read_yaml
from tests.conftest import Command

ROOT = Path(__file__).parent.parent
JOBS = read_yaml(ROOT / ".github/workflows/ci.yml")["jobs"]


def commands() -> str:
    return "\n".join(step.get("run", "") for job in JOBS.values() for step in job["steps"])


def test_what_the_policy_promises_is_run() -> None:
    text = commands()
    for word in ("tests/run", "pip-audit", "detect-secrets-hook", "tests.fuzz", "diff --recursive"):
        assert word in text
    used = {
        step["uses"].partition("@")[0]
        for job in JOBS.values()
        for step in job["steps"]
        if "uses" in step
    }
    assert {"actions/attest-build-provenance", "actions/attest-sbom", "anchore/sbom-action"} <= used


def test_nothing_of_an_event_reaches_a_shell() -> None:
    """`${{ … }}` in a command is pasted before the shell reads it."""
    assert "${{" not in commands()


def test_every_job_ends_and_may_only_read_unless_it_releases() -> None:
    for name, job in JOBS.items():
        assert job["timeout-minutes"] <= 60
        assert ("permissions" in job) == (name == "release")


def test_files_that_the_secret_scan_leaves_out_exist() -> None:
    (listed,) = re.findall(r"--exclude-files '\^tests/\(([^)]+)\)'", commands())
    for name in listed.split("|"):
        assert list((ROOT / "tests").glob(f"{name}*"))


@pytest.mark.slow
def test_the_action_runs_the_command_that_was_asked_for(tmp_path: Path) -> None:
    action = read_yaml(ROOT / "action.yml")
    (step,) = action["runs"]["steps"]
    assert "${{" not in step["run"]
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    program = tmp_path / "python"  # makes the environment, and is its pip
    program.write_text(
        f'#!/bin/sh\n[ "$2" = venv ] && mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && ln -s '
        f'{Path(sys.executable).with_name("ascend-doctor")} "$3/bin/ascend-doctor"\nexit 0\n'
    )
    program.chmod(0o755)
    (tmp_path / "launch.sh").write_text(
        "torchrun --nproc_per_node 8 pretrain_gpt.py --bf16 --fp16\n"
    )
    (tmp_path / "x").touch()
    for command, code in (("lint launch.sh", 1), ("lint *", 2), ("lint $(touch y)", 2)):
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            env={
                **os.environ,
                "COMMAND": command,
                "PYTHON": str(program),
                "RUNNER_TEMP": str(tmp_path / command),
                "GITHUB_ACTION_PATH": str(ROOT),
            },
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        assert not (tmp_path / "y").exists()


@pytest.mark.slow
def test_the_hook_lints_what_is_committed(doctor: Command, tmp_path: Path) -> None:
    (hook,) = read_yaml(ROOT / ".pre-commit-hooks.yaml")
    program, *words = hook["entry"].split()
    assert program == "ascend-doctor"
    launch = tmp_path / "launch.sh"
    launch.write_text("torchrun --nproc_per_node 8 pretrain_gpt.py --bf16 --fp16\n")
    assert doctor(*words, str(launch)).returncode == 1
