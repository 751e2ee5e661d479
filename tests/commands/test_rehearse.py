from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.conftest import Command

MARK = "ASCEND_DOCTOR_TEST_MARK"


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for all rehearsals here, so that the stand-in tree is built once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def rehearse(doctor: Command, examined_python: Path, cache: Path) -> Any:
    def run(*arguments: str) -> Any:
        done = doctor(
            *("rehearse", "--python", str(examined_python), "--format", "json", "-q", *arguments),
            env={**os.environ, "XDG_CACHE_HOME": str(cache), MARK: str(cache)},
            deadline=600,
        )
        assert done.stdout, done.stderr
        report = json.loads(done.stdout)
        assert report["simulated"]
        assert report["snapshot"]["simulated"]
        assert all(run["simulated"] for run in report["snapshot"]["probes"])
        return done, report

    return run


def levels(report: Any) -> dict[str, str]:
    return {one["check"]: one["level"] for one in report["findings"]}


def test_level_0_reads_a_whole_simulated_server(rehearse: Any) -> None:
    done, report = rehearse("-l", "0", "--machine", "a3-16")
    found = levels(report)
    assert done.returncode == 0, [one for one in report["findings"] if one["level"] == "error"]
    for check in (
        "npu-health",
        "npu-topology",
        "driver-library",
        "torch-npu-libraries",
        "tbe-python",
    ):
        assert found[check] == "ok", check
    assert len(report["snapshot"]["npus"]["devices"]) == 16


def test_the_probes_pass_on_two_simulated_npus(rehearse: Any) -> None:
    done, report = rehearse(
        *("--nproc", "2", "--only", "device", "--only", "allreduce", "--only", "bool-index")
    )
    assert levels(report) == {"device": "ok", "allreduce": "ok", "bool-index": "ok"}
    assert done.returncode == 0


def test_a_fault_is_found_by_its_probe_and_leaves_nothing_behind(
    rehearse: Any, cache: Path
) -> None:
    done, report = rehearse(
        *(
            "--inject",
            "rank-wrong:rank=1",
            "--nproc",
            "2",
            "--only",
            "allreduce",
            "--only",
            "device",
        )
    )
    assert done.returncode == 1
    assert levels(report) == {"device": "ok", "allreduce": "error"}
    (found,) = [one for one in report["findings"] if one["check"] == "allreduce"]
    assert found["ranks"] == [1]
    ours = [one for one in psutil.process_iter() if _environment(one).get(MARK) == str(cache)]
    assert not ours


def _environment(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ()
    except psutil.Error:
        return {}


def test_faults_are_listed_and_unknown_ones_refused(doctor: Command) -> None:
    listed = doctor("rehearse", "--inject", "list")
    assert listed.returncode == 0
    assert "hbm-oom" in listed.stdout
    for arguments in (("--inject", "no-such"), ("--machine", "a9"), ("--soc", "Ascend1")):
        done = doctor("rehearse", *arguments, "--python", "/usr/bin/python3")
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1


def test_without_torch_npu_it_says_what_to_install(doctor: Command, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "v"], check=True)
    done = doctor("rehearse", "--python", str(tmp_path / "v" / "bin" / "python"))
    assert done.returncode == 2
    assert "torch_npu is not installed" in done.stderr
    assert "pip install" in done.stderr
