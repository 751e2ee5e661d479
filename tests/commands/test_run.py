import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.programs import run_program

CHECKS = ("--only", "shared-memory", "--only", "lora-etp")
DOCTOR = [str(Path(sys.executable).with_name("ascend-doctor")), "run", *CHECKS]


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return run_program([*DOCTOR, *arguments], check=False, cwd=cwd)


def test_a_launch_that_succeeds_is_passed_through(tmp_path: Path) -> None:
    done = run("--", "sh", "-c", "echo out; echo err >&2", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "out\n", "err\n")
    assert sorted((tmp_path / "ascend-doctor-run.log").read_text().split()) == ["err", "out"]


def test_a_log_that_another_run_writes_is_left_alone(tmp_path: Path) -> None:
    log = tmp_path / "ascend-doctor-run.log"
    with log.open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        done = run("--", "echo", "out", cwd=tmp_path)
    assert (done.returncode, done.stdout, log.read_text()) == (0, "out\n", "")
    assert "goes to ascend-doctor-run-2.log" in done.stderr
    assert (tmp_path / "ascend-doctor-run-2.log").read_text() == "out\n"
    assert run("--", "echo", "again", cwd=tmp_path).stderr == ""
    assert log.read_text() == "again\n"


@pytest.mark.slow
def test_a_failure_is_diagnosed_and_its_code_kept(tmp_path: Path) -> None:
    message = "RuntimeError: The Inner error is reported as above. EI0006: Getting socket times out"
    done = run("--log", "x.log", "--", "sh", "-c", f"echo '{message}' >&2; exit 7", cwd=tmp_path)
    assert done.returncode == 7
    assert "what its output in x.log shows" in done.stderr
    assert "EI0006" in done.stderr
    assert done.stdout == ""


@pytest.mark.slow
def test_ranks_that_fail_before_a_pipe_are_diagnosed(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(
        "RuntimeError: The Inner error is reported as above. EI0006: Getting socket times out\n"
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
    )
    done = run("--log", "x.log", "--", "sh", "-c", "cat log | tee copy", cwd=tmp_path)
    assert done.returncode == 0
    assert "it ended with 0, though its ranks failed; what its output" in done.stderr
    assert "EI0006" in done.stderr


@pytest.mark.slow
def test_a_failure_without_a_reason_is_told(tmp_path: Path) -> None:
    done = run("--log", "x.log", "--", "sh", "-c", "echo hello; exit 3", cwd=tmp_path)
    assert done.returncode == 3
    assert "ascend-doctor: it ended with 3" in done.stderr
    assert "x.log" in done.stderr


@pytest.mark.slow
def test_a_launch_that_cannot_work_is_not_started(tmp_path: Path) -> None:
    options = ("--train_type", "lora", "--expert_tensor_parallel_size", "2")
    (tmp_path / "a.sh").write_text(f"touch started\nmegatron sft {' '.join(options)} || true\n")
    for command in (["sh", "-c", "touch started", "megatron", "sft", *options], ["bash", "a.sh"]):
        done = run("--", *command, cwd=tmp_path)
        assert done.returncode == 1, done.stdout + done.stderr
    assert "not started" in done.stderr
    assert not (tmp_path / "started").exists()
    assert run("--anyway", "--", *command, cwd=tmp_path).returncode == 0
    assert (tmp_path / "started").exists()


@pytest.mark.slow
def test_bad_arguments_are_one_line(tmp_path: Path) -> None:
    for arguments in (("--", "no-such-program"), ("--log", "none/x.log", "--", "true")):
        done = run(*arguments, cwd=tmp_path)
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_a_signal_reaches_the_launch(tmp_path: Path) -> None:
    script = "trap 'echo ended; exit 9' TERM; echo ready; while :; do sleep 0.1; done"
    with subprocess.Popen(
        [*DOCTOR, "--", "sh", "-c", script], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(60) == 9


@pytest.mark.slow
def test_what_a_launch_leaves_open_does_not_hold_it(tmp_path: Path) -> None:
    done = run("--", "sh", "-c", "sleep 400 & echo $!", cwd=tmp_path)
    sleeper = int(done.stdout)
    assert psutil.pid_exists(sleeper)
    os.kill(sleeper, signal.SIGKILL)


@pytest.mark.slow
def test_a_launch_that_failed_ends_with_its_verdict(tmp_path: Path) -> None:
    ecc = "RuntimeError: NPU function error: HBM MULTI BIT ECC ERROR, error code is 507054"
    options = ("--exit-verdict", "--nodes", "atlas-07", "--history", "history")
    done = run(*options, "--", "sh", "-c", f"echo '{ecc}'; exit 7", cwd=tmp_path)
    assert done.returncode == 69
    assert "Verdict: exclude atlas-07" in done.stderr
    (file,) = (tmp_path / "history").iterdir()
    assert '"atlas-07"' in file.read_text()
    # Undetermined: the launch's code stays.
    odd = run(*options, "--", "sh", "-c", "echo '[ERROR] something odd'; exit 7", cwd=tmp_path)
    assert odd.returncode == 7
    # A signal says more than the output: SIGKILL mostly means too little host memory.
    killed = run("--exit-verdict", "--", "sh", "-c", "echo step 1; kill -9 $$", cwd=tmp_path)
    assert killed.returncode == 78
    ended = run("--exit-verdict", "--", "sh", "-c", "echo step 1; kill -15 $$", cwd=tmp_path)
    assert ended.returncode == 75
    assert len(list((tmp_path / "history").iterdir())) == 2
