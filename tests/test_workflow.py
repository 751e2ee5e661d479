"""The workflow runs what can be run here: it names no step that a laptop has not."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent
JOBS = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text("utf-8"))["jobs"]


def commands() -> str:
    return "\n".join(step.get("run", "") for job in JOBS.values() for step in job["steps"])


def test_what_the_policy_promises_is_run() -> None:
    told = commands()
    for word in ("tests/run", "pip-audit", "detect-secrets-hook", "tests.fuzz", "diff --recursive"):
        assert word in told
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
    for one in listed.split("|"):
        assert list((ROOT / "tests").glob(f"{one}*"))
