"""Whatever hangs and whenever a signal comes: the run ends in time, says so, and leaves nothing."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.knobs import draw, seed
from tests.programs import run_program
from tests.surroundings.test_surroundings import MARK, environment, list_left

pytestmark = pytest.mark.slow

# Below /hung nothing answers, as on a mount without its server: the call ends neither by a
# signal nor by a deadline. A held lock stands for it.
_HUNG = """
import ctypes, os, sys
import builtins, io
libc = ctypes.CDLL(None)
mutex = ctypes.create_string_buffer(64)
libc.pthread_mutex_lock(mutex)
def hanging(real):
    def call(path, *rest, **named):
        if str(path).startswith("/hung"):
            os.close(os.open_(os.environ["REACHED"], os.O_CREAT | os.O_WRONLY))
            libc.pthread_mutex_lock(mutex)
        return real(path, *rest, **named)
    return call
os.open_ = os.open
for name in ("stat", "lstat", "open", "listdir", "mkdir", "access", "readlink", "scandir"):
    setattr(os, name, hanging(getattr(os, name)))
builtins.open = io.open = hanging(io.open)
"""
_OPTIONS = ("check", "-l", "0", "-q", "--timeout", "3", "--python", sys.executable)


def await_file(path: Path) -> None:
    for _ in range(300):
        if path.exists():
            return
        time.sleep(0.1)
    raise AssertionError(f"{path.name} did not come")


def doctor(folder: Path, name: str, **variables: str) -> tuple[dict[str, str], list[str]]:
    env = environment(folder, name)
    hook = folder / "hook"
    hook.mkdir(exist_ok=True)
    (hook / "sitecustomize.py").write_text(_HUNG)
    env |= {"PYTHONPATH": str(hook), "REACHED": str(folder / "reached"), **variables}
    return env, [sys.executable, "-m", "ascend_doctor", *_OPTIONS]


HANGS = {
    "a home": ({"HOME": "/hung/home"}, ()),
    "a cache": ({"XDG_CACHE_HOME": "/hung/cache"}, ()),
    "a temporary folder": ({"TMPDIR": "/hung/tmp"}, ()),
    "a lock": ({}, ("--lock", "/hung/a.lock")),
    "settings": ({}, ("--config", "/hung/settings")),
    "an output": ({}, ("-o", "/hung/report.json", "--format", "json")),
    "a folder of PATH": ({"PATH": f"/hung/bin:{os.environ['PATH']}"}, ()),
    "a folder of the loader": ({"LD_LIBRARY_PATH": "/hung/lib"}, ()),
    "a folder of CANN": ({"ASCEND_TOOLKIT_HOME": "/hung/cann"}, ()),
    "a rank table": ({"RANK_TABLE_FILE": "/hung/table.json"}, ()),
    "an overlay": ({}, ("--matrix", "/hung/overlay")),
    "a recording": ({}, ("--replay", "/hung/machine")),
}
_FAST = ("a home", "a lock", "an output", "a folder of PATH")


@pytest.mark.parametrize("what", draw(HANGS, _FAST, 3))
def test_a_mount_that_stopped_answering_does_not_hold_it(what: str, tmp_path: Path) -> None:
    variables, options = HANGS[what]
    env, argv = doctor(tmp_path, what, **variables)
    done = run_program([*argv, *options], check=False, env=env)
    output = done.stdout + done.stderr
    assert done.returncode in {1, 3}, output
    assert "Traceback" not in output
    assert list_left(env[MARK]) == []
    if "--format" not in options and what not in {"settings", "an overlay", "a recording"}:
        assert " passed" in done.stdout, output


def test_what_was_collected_is_in_the_report_of_a_run_that_hangs(tmp_path: Path) -> None:
    env, argv = doctor(tmp_path, "partial")
    done = run_program([*argv, "--lock", "/hung/a.lock", "--format", "json"], check=False, env=env)
    report = json.loads(done.stdout)
    assert report["verdict"]["exit_code"] == done.returncode
    assert report["snapshot"]["host"]
    (early,) = [finding for finding in report["findings"] if finding["check"] == "early-end"]
    assert "did not end within 3 s" in early["title"]
    assert "did not end within 3 s; it waits in" in done.stderr


def test_a_signal_is_heeded_where_nothing_answers(tmp_path: Path) -> None:
    env, argv = doctor(tmp_path, "deaf")
    argv[argv.index("3")] = "600"
    with subprocess.Popen(
        [*argv, "--config", "/hung/x"], env=env, stderr=subprocess.PIPE, text=True
    ) as process:
        await_file(tmp_path / "reached")
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted" in errors


def test_an_interrupted_collection_reports_what_it_has(tmp_path: Path) -> None:
    env = environment(tmp_path, "interrupted")
    tool = tmp_path / "bin" / "npu-smi"
    tool.write_text(f"#!/bin/sh\n>{tmp_path}/begun\ntrap '' TERM HUP INT\nsleep 600\n")
    tool.chmod(0o755)
    # Under nohup it would be ignored.
    heeding = ["env", "--default-signal=HUP"]
    argv = [*heeding, sys.executable, "-m", "ascend_doctor", "check", "-l", "0", "--format", "json"]
    with subprocess.Popen(
        argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        await_file(tmp_path / "begun")
        time.sleep(1)
        process.send_signal(signal.SIGHUP)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    report = json.loads(out)
    assert report["interrupted"] is True
    assert "early-end" in {finding["check"] for finding in report["findings"]}
    assert report["snapshot"]["host"]
    assert "interrupted" in err
    assert list_left(env[MARK]) == []


def test_a_signal_at_any_moment_leaves_nothing(tmp_path: Path) -> None:
    dice = random.Random(seed(0))
    env = environment(tmp_path, "moments")
    argv = [sys.executable, "-m", "ascend_doctor", "check", "-l", "0", "-q"]
    for number in range(4):
        sent = dice.choice([signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
        with subprocess.Popen(
            argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            time.sleep(1.5 * dice.random())
            process.send_signal(sent)
            _, err = process.communicate(timeout=60)
        # Before our first line and behind our last, a signal ends the interpreter by itself, or by
        # SIGINT where Python has made it an exception.
        assert process.returncode in {0, 1, 3, 130, -sent, -signal.SIGINT}, (number, err)
        assert "a bug in" not in err
        assert list_left(env[MARK]) == []
        assert not list((tmp_path / "tmp").iterdir())


def test_a_terminal_that_goes_away_is_ignored_under_nohup(tmp_path: Path) -> None:
    env = environment(tmp_path, "nohup")
    argv = ["nohup", sys.executable, "-m", "ascend_doctor", "check", "-l", "0", "-q"]
    with subprocess.Popen(
        argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        time.sleep(0.5)
        process.send_signal(signal.SIGHUP)
        out, _ = process.communicate(timeout=60)
    assert process.returncode in {0, 1, 3}
    assert " passed" in out
