import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from ascend_doctor.provision.lock import FILE, BasePython, Checkout, Lock, Prefix, Setting, write
from tests.conftest import Command

MARK = "ASCEND_DOCTOR_TEST_MARK"


@pytest.fixture
def rehearse(installed: Command, simulated_python: Path, tmp_path: Path) -> Any:
    def run(*arguments: str, python: Path | None = simulated_python) -> Any:
        named = ("--python", str(python)) if python else ()
        done = installed(
            *("rehearse", *named, "--format", "json", "-q", *arguments),
            env={**os.environ, MARK: str(tmp_path)},
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
    return {finding["check"]: finding["level"] for finding in report["findings"]}


def test_level_0_reads_a_whole_simulated_server(rehearse: Any, examined_python: Path) -> None:
    done, report = rehearse("-l", "0", "--machine", "a3-16", python=examined_python)
    by_check = levels(report)
    assert done.returncode == 0, [
        finding for finding in report["findings"] if finding["level"] == "error"
    ]
    for check in (
        "npu-health",
        "npu-topology",
        "driver-library",
        "torch-npu-libraries",
        "tbe-python",
    ):
        assert by_check[check] == "ok", check
    assert len(report["snapshot"]["npus"]["devices"]) == 16


def test_a_stack_of_setup_is_rehearsed_with_its_variables(
    rehearse: Any, examined_python: Path, tmp_path: Path
) -> None:
    stack = tmp_path / "prefix" / "stacks" / "mine"
    (stack / "src" / "megatron-lm" / "megatron" / "core").mkdir(parents=True)
    lock = Lock(
        tool_version="0",
        id="mine",
        created_at="2026-01-01T00:00:00Z",
        wish={"megatron": "0.15.3"},
        python=BasePython(version="3", tag="cp3", arch="any"),
        checkouts=(
            Checkout(
                name="megatron-lm",
                version="0.15.3",
                ref="x",
                commit="0" * 40,
                url="https://example.org/u.git",
            ),
        ),
        pythonpath=("src/megatron-lm",),
        wheels=(),
        settings=(Setting(name="CUDA_DEVICE_MAX_CONNECTIONS", value="1", why="a test"),),
        venv=str(examined_python.parent.parent),
    )
    write(stack / FILE, lock)
    Prefix(stack.parent.parent).switch("mine")
    for named in (("--prefix", str(stack.parent.parent)), ("--prefix", str(stack))):
        _, report = rehearse("-l", "0", "--no-redact", *named, python=None)
        facts = report["snapshot"]
        assert facts["python"]["executable"] == str(examined_python)
        assert facts["import_path"]["pythonpath"][0] == str(stack / "src" / "megatron-lm")
        assert facts["environment"]["variables"]["CUDA_DEVICE_MAX_CONNECTIONS"] == "1"


@pytest.mark.slow
def test_a_prefix_without_a_stack_is_refused(installed: Command, tmp_path: Path) -> None:
    for arguments in (("--prefix", str(tmp_path)), ("--megatron", "0.15.3")):
        done = installed(
            "rehearse", *arguments, env={**os.environ, "ASCEND_DOCTOR_PREFIX": str(tmp_path)}
        )
        assert done.returncode == 2
        assert "ascend-doctor setup" in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_the_probes_pass_on_two_simulated_npus(rehearse: Any) -> None:
    done, report = rehearse(
        *("--nproc", "2", "--only", "device", "--only", "allreduce", "--only", "bool-index")
    )
    assert levels(report) == {"device": "ok", "allreduce": "ok", "bool-index": "ok"}
    assert done.returncode == 0


def test_a_fault_is_found_by_its_probe_and_leaves_nothing_behind(
    rehearse: Any, tmp_path: Path
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
    (only,) = [finding for finding in report["findings"] if finding["check"] == "allreduce"]
    assert only["ranks"] == [1]
    ours = [
        process
        for process in psutil.process_iter()
        if _environment(process).get(MARK) == str(tmp_path)
    ]
    assert not ours


def _environment(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ()
    except psutil.Error:
        return {}


@pytest.mark.slow
def test_faults_are_listed_and_unknown_ones_refused(installed: Command) -> None:
    listed = installed("rehearse", "--inject", "list")
    assert listed.returncode == 0
    assert "hbm-oom" in listed.stdout
    for arguments in (("--inject", "no-such"), ("--machine", "a9"), ("--soc", "Ascend1")):
        done = installed("rehearse", *arguments, "--python", "/usr/bin/python3")
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
def test_without_torch_npu_it_says_what_to_install(installed: Command, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "v"], check=True)
    done = installed("rehearse", "--python", str(tmp_path / "v" / "bin" / "python"))
    assert done.returncode == 2
    assert "torch_npu is not installed" in done.stderr
    assert "pip install 'ascend-doctor[rehearsal]'" in done.stderr
