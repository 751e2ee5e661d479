"""The workflow runs what can be run here: it names no step that a laptop has not."""

import os
import re
import sys
from collections.abc import Mapping
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ascend_doctor.machine.parsing import read_yaml
from tests import constraints
from tests.conftest import Command
from tests.programs import run_program

ROOT = Path(__file__).parent.parent
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
JOBS = read_yaml(ROOT / ".github/workflows/ci.yml")["jobs"]
PYPROJECT = (ROOT / "pyproject.toml").read_text("utf-8")

BAD_LAUNCH = """\
torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size 3 --num-attention-heads 32
"""


def commands() -> str:
    return "\n".join(step.get("run", "") for job in JOBS.values() for step in job["steps"])


def used(job: Mapping[str, Any]) -> list[str]:
    return [step["uses"] for step in job["steps"] if "uses" in step]


def test_what_the_policy_promises_is_run() -> None:
    text = commands()
    for word in ("tests/run", "pip-audit", "detect-secrets-hook", "tests.fuzz", "diff --recursive"):
        assert word in text
    assert "cyclonedx-py environment" in text
    names = {action.partition("@")[0] for action in used(JOBS["release"])}
    assert {"actions/attest-build-provenance", "actions/attest-sbom"} <= names


def test_actions_are_named_by_commit_and_release() -> None:
    for workflow in WORKFLOWS:
        lines = [line for line in workflow.read_text("utf-8").splitlines() if "uses:" in line]
        assert len(lines) == sum(len(used(job)) for job in read_yaml(workflow)["jobs"].values())
        for line in lines:
            assert re.search(r"uses: [\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line), line


def test_a_job_that_may_write_runs_the_platform_s_actions_alone() -> None:
    for workflow in WORKFLOWS:
        rights = read_yaml(workflow)
        assert rights["permissions"] == {"contents": "read"}
        for job in rights["jobs"].values():
            if "write" in {*job.get("permissions", {}).values()}:
                assert all(action.startswith("actions/") for action in used(job))
                assert "checkout" not in str(used(job))  # nothing of a change runs in it
                assert "pip install" not in str(job["steps"])


def test_the_release_may_do_what_it_needs_and_no_more() -> None:
    # A release, a Sigstore identity, and attestations (actions/attest-build-provenance).
    rights = {"contents": "write", "id-token": "write", "attestations": "write"}
    assert JOBS["release"]["permissions"] == rights
    assert set(JOBS["release"]["needs"]) == set(JOBS) - {"release"}


def test_every_python_that_is_claimed_is_run() -> None:
    run = {*JOBS["test"]["strategy"]["matrix"]["python"]}
    run |= {
        step["with"]["python-version"]
        for step in JOBS["newest"]["steps"][:2]
        if "setup-python" in step["uses"]
    }
    claims = re.findall(r"Programming Language :: Python :: (3\.\d+)", PYPROJECT)
    assert run == {*claims}
    assert 'requires-python = ">=3.10,<3.15"' in PYPROJECT


def test_packages_are_installed_by_hash() -> None:
    installs = re.findall(r"-m pip .*", commands())
    assert len(installs) > 5
    for line in installs:
        files = re.findall(r"-r (\S+)", line)
        assert ("--require-hashes" in line and files) or "--no-deps" in line, line
        assert all((ROOT / file).is_file() for file in files)


def test_every_dependency_is_constrained() -> None:
    assert constraints.EXTRAS.keys() == {path.stem for path in constraints.FOLDER.glob("*.txt")}
    pins: dict[str, set[str]] = {}
    for name in constraints.EXTRAS:
        for line in (constraints.FOLDER / f"{name}.txt").read_text("utf-8").splitlines()[1:]:
            pin, *hashes = line.split(" --hash=")
            assert hashes
            assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", digest) for digest in hashes)
            requirement = Requirement(pin)
            key = canonicalize_name(requirement.name)
            pins.setdefault(key, set()).add(str(requirement.specifier).removeprefix("=="))
    rows = [Requirement(text) for text in requires("ascend-doctor") or ()]
    tools = (constraints.FOLDER / "tools.in").read_text("utf-8").splitlines()
    rows += [Requirement(line) for line in tools if not line.startswith("#")]
    assert len(rows) > 40
    for row in rows:
        versions = pins[canonicalize_name(row.name)]
        assert all(row.specifier.contains(version, prereleases=True) for version in versions), row


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
    (tmp_path / "launch.sh").write_text(BAD_LAUNCH)
    (tmp_path / "x").touch()
    for command, code in (("lint launch.sh", 1), ("lint *", 2), ("lint $(touch y)", 2)):
        done = run_program(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            env={
                **os.environ,
                "COMMAND": command,
                "PYTHON": str(program),
                "RUNNER_TEMP": str(tmp_path / command),
                "GITHUB_ACTION_PATH": str(ROOT),
            },
            cwd=tmp_path,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        assert not (tmp_path / "y").exists()


@pytest.mark.slow
def test_the_hook_lints_what_is_committed(installed: Command, tmp_path: Path) -> None:
    (hook,) = read_yaml(ROOT / ".pre-commit-hooks.yaml")
    program, *words = hook["entry"].split()
    assert program == "ascend-doctor"
    launch = tmp_path / "launch.sh"
    launch.write_text(BAD_LAUNCH)
    assert installed(*words, str(launch)).returncode == 1
