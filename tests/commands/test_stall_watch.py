"""The watch over a launch: what the hook leaves alone, what is gathered, who is told."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from ascend_doctor.commands.stall_watch import RankProcess, StallWatch, folder_beside, gather
from ascend_doctor.diagnosis.stacks import main_frames
from ascend_doctor.diagnosis.stall_files import read_stall_files
from ascend_doctor.diagnosis.stall_result import Stall
from ascend_doctor.errors import DataError
from ascend_doctor.machine import processes
from tests.commands.test_run import run
from tests.programs import run_program

SLEEPER = "import time, sys; sys.stdout.write('up\\n'); sys.stdout.flush()\ntime.sleep(600)\n"


def watch(folder: Path, **more: str) -> dict[str, str]:
    base = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return StallWatch(folder, 60, lambda _: None).environment({**base, **more})


def test_the_environment_arms_and_leaves_what_the_user_set(tmp_path: Path) -> None:
    folder = tmp_path / "x-stall"
    env = StallWatch(folder, 60, lambda _: None).environment(
        {"PYTHONPATH": "/own", "TORCH_HCCL_TRACE_BUFFER_SIZE": "7"}
    )
    assert env == {
        "PYTHONPATH": f"{folder}/hook:/own",
        "TORCH_HCCL_TRACE_BUFFER_SIZE": "7",
        "TORCH_HCCL_DEBUG_INFO_TEMP_FILE": f"{folder}/hccl_trace_rank_",
    }


def test_the_hook_hands_on_to_the_sitecustomize_behind_it(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import sys\nsys.own = 1\n")
    for rank in ({}, {"RANK": "3", "LOCAL_RANK": "1"}):
        env = watch(tmp_path / "s", **rank)
        code = (
            "import sys; print(getattr(sys, 'own', 0), any(p.endswith('/hook') for p in sys.path))"
        )
        for path, seen in (
            (f"{env['PYTHONPATH']}:{own}", "1 False"),
            (env["PYTHONPATH"], "0 False"),
        ):
            done = run_program([sys.executable, "-c", code], env={**env, "PYTHONPATH": path})
            assert (done.stdout.strip(), done.stderr) == (seen, "")
    assert (tmp_path / "s" / "rank-3.json").exists()


def test_only_a_rank_is_armed_and_none_of_its_children(tmp_path: Path) -> None:
    code = (
        "import os, subprocess, sys\n"
        "if len(sys.argv) == 1: subprocess.run([sys.executable, sys.argv[0], 'child'])\n"
    )
    program = tmp_path / "p.py"
    program.write_text(code)
    env = watch(tmp_path / "s", RANK="0", LOCAL_RANK="0", WORLD_SIZE="1")
    with subprocess.Popen([sys.executable, str(program)], env=env) as process:
        assert process.wait(60) == 0
    identity = json.loads((tmp_path / "s" / "rank-0.json").read_text())
    assert identity["pid"] == process.pid
    del env["LOCAL_RANK"]
    for path in (tmp_path / "s").glob("rank-*"):
        path.unlink()
    subprocess.run([sys.executable, str(program)], check=True, env=env, timeout=60)
    assert not list((tmp_path / "s").glob("rank-*"))


@pytest.fixture(autouse=True)
def _without_py_spy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "find_spy", lambda: None)


@contextlib.contextmanager
def first_rank(folder: Path, program: Path, *, stopped: bool) -> Iterator[subprocess.Popen[bytes]]:
    """A rank that has printed a line, with its forks; all are killed."""
    env = watch(folder, RANK="0", LOCAL_RANK="0", WORLD_SIZE="2", PATH="/nowhere")
    with subprocess.Popen(
        [sys.executable, str(program)], env=env, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout
        process.stdout.readline()
        time.sleep(0.3)
        if stopped:
            process.send_signal(signal.SIGSTOP)
            while psutil.Process(process.pid).status() != psutil.STATUS_STOPPED:
                time.sleep(0.05)
        yield process
        os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.parametrize("stopped", [False, True])
def test_stacks_and_states_are_gathered(tmp_path: Path, *, stopped: bool) -> None:
    folder = tmp_path / "s"
    program = tmp_path / "sleeper.py"
    program.write_text(SLEEPER)
    with first_rank(folder, program, stopped=stopped) as process:
        gather(folder, 1)
        assert process.poll() is None
    files = read_stall_files([str(folder)])
    assert files.states[0].state == ("T" if stopped else "S")
    assert files.states[0].world_size == 2
    stall = files.judge()
    assert stall
    lines = [position.line for position in stall.positions]
    assert lines == ([] if stopped else [f"{program}:2 in <module>"])


@pytest.mark.parametrize("stopped", [False, True])
def test_what_a_helper_shows_is_not_the_rank_s(tmp_path: Path, *, stopped: bool) -> None:
    """A stopped rank writes no stacks, but the worker that it forked does."""
    folder = tmp_path / "s"
    program = tmp_path / "loader.py"
    program.write_text(
        "import os, sys, time\ndef help():\n    time.sleep(60)\n"
        "if os.fork() == 0:\n    help()\nprint(flush=True)\ntime.sleep(60)\n"
    )
    with first_rank(folder, program, stopped=stopped):
        gather(folder, 1)
    files = read_stall_files([str(folder)])
    own = [str(frame) for frame in main_frames(files.stacks.get(0, ()))]
    assert own == ([] if stopped else [f"{program}:7 in <module>"])
    (helper,) = files.helpers[0]
    assert str(main_frames(helper)[0]) == f"{program}:3 in help"


def test_a_process_that_took_the_number_gets_no_signal(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    watch(folder)
    with subprocess.Popen([sys.executable, "-c", SLEEPER], stdout=subprocess.PIPE) as stranger:
        assert stranger.stdout
        stranger.stdout.readline()
        identity: dict[str, Any] = {
            "rank": 0, "local_rank": 0, "world_size": 1, "pid": stranger.pid,
            "host": socket.gethostname(), "signal": int(signal.SIGTERM), "main": "0x0",
        }  # fmt: skip
        assert RankProcess(**identity).pid == stranger.pid
        (folder / "rank-0.json").write_text(json.dumps(identity))
        (folder / "rank-0.stacks").touch()
        gather(folder, 1)
        assert stranger.poll() is None
        stranger.kill()
    assert read_stall_files([str(folder)]).states[0].state == "gone"


@pytest.mark.slow
def test_a_stall_is_reported_once_and_the_folder_goes_where_there_was_none(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    stalls: list[Stall] = []
    watch = StallWatch(folder, 1, stalls.append)
    base = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env = watch.environment({**base, "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"})
    with subprocess.Popen([sys.executable, "-c", SLEEPER], env=env) as process:
        watch.start(process.pid)
        end = time.monotonic() + 60
        while not stalls and time.monotonic() < end:
            time.sleep(0.1)
        time.sleep(2.5)
        process.kill()
    watch.end()
    assert len(stalls) == watch.stalls == 1
    assert "no rank is in a call that shows what it waits for" in stalls[0].undecided
    assert folder.exists()
    quiet = StallWatch(tmp_path / "q", 60, stalls.append)
    quiet.environment({})
    quiet.start(os.getpid())
    quiet.end()
    quiet.close()
    assert not (tmp_path / "q").exists()


def test_a_folder_that_others_can_write_is_not_used(tmp_path: Path) -> None:
    folder = tmp_path / "x-stall"
    folder.mkdir()
    folder.chmod(0o777)
    other = tmp_path / "other"
    other.mkdir()
    link = tmp_path / "y-stall"
    link.symlink_to(other)
    for path in (folder, link):
        with pytest.raises(DataError, match="others can write it"):
            StallWatch(path, 60, lambda _: None).environment({})
    assert not list(other.iterdir())


def test_the_folder_stands_beside_the_log(tmp_path: Path) -> None:
    assert folder_beside(str(tmp_path / "a.log")).parent == tmp_path / "a-stall"
    assert folder_beside("/dev/null").parent == Path.cwd() / "ascend-doctor-run-stall"


@pytest.mark.slow
def test_run_says_what_stalled_and_lets_the_launch_go_on(tmp_path: Path) -> None:
    program = tmp_path / "p.py"
    program.write_text("import time\ntime.sleep(6)\nprint('went on')\n")
    environment = f"RANK=0 LOCAL_RANK=0 WORLD_SIZE=1 {sys.executable} {program}"
    done = run("--stall", "1", "--", "sh", "-c", environment, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "went on\n")
    assert "no progress; could not tell" in done.stderr
    assert f"{program}:2 in <module>" in done.stderr
    folder = tmp_path / "ascend-doctor-run-stall"
    assert f"ascend-doctor diagnose {folder}" in done.stderr
    (stacks,) = folder.rglob("rank-0.stacks")
    assert stacks.parent == folder_beside(str(tmp_path / "ascend-doctor-run.log"))
    off = run(
        "--stall", "0", "--", "sh", "-c", environment.replace("sleep(6)", "sleep(0)"), cwd=tmp_path
    )
    assert off.stderr == ""


def test_a_rank_of_another_machine_in_a_shared_folder_is_left_to_its_own_watch(
    tmp_path: Path,
) -> None:
    identity = {"rank": 5, "local_rank": 1, "world_size": 8, "pid": 1 << 22, "host": "elsewhere"}
    (tmp_path / "rank-5.json").write_text(json.dumps({**identity, "signal": 45, "main": "0x1"}))
    gather(tmp_path, 1)
    assert not (tmp_path / "rank-5.state").exists()
