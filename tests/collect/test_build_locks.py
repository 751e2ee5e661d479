"""Locks of extensions that torch compiles: of real files, real processes and torch's own class."""

import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ascend_doctor.collect.build_locks import build_locks
from ascend_doctor.machine.build_locks import folder, remove_dead
from ascend_doctor.machine.live import LiveMachine
from tests.programs import run_program

HOLD = """import os, sys, time
os.open(sys.argv[1], os.O_CREAT | os.O_EXCL)
print("held", flush=True)
time.sleep(600)
"""
ASK = """from torch.utils.cpp_extension import _get_build_directory
print(_get_build_directory("fused", False))
"""


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    path = tmp_path / "extensions" / "py311_cpu" / "fused" / "lock"
    path.parent.mkdir(parents=True)
    return path


@pytest.fixture
def machine(tmp_path: Path) -> LiveMachine:
    return LiveMachine({"TORCH_EXTENSIONS_DIR": str(tmp_path / "extensions")})


@pytest.fixture
def holder(lock: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", HOLD, str(lock)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        yield process
        process.kill()


def test_a_process_that_compiles_holds_its_lock(
    machine: LiveMachine, lock: Path, holder: subprocess.Popen[bytes]
) -> None:
    (seen,) = build_locks(machine).locks
    assert (seen.path, seen.holder) == (str(lock), holder.pid)
    assert seen.age is not None


def test_one_that_was_killed_leaves_it(
    machine: LiveMachine, lock: Path, holder: subprocess.Popen[bytes]
) -> None:
    holder.kill()
    holder.wait()
    os.utime(lock, (0, time.time() - 900))
    (seen,) = build_locks(machine).locks
    assert (seen.holder, seen.complete) == (None, True)
    assert seen.age is not None
    assert 900 <= seen.age < 1000


def test_only_dead_locks_of_a_launch_are_removed(
    machine: LiveMachine, lock: Path, holder: subprocess.Popen[bytes]
) -> None:
    begin = time.time() - 60
    remove_dead(machine.env, begin)
    assert lock.exists()
    holder.kill()
    holder.wait()
    remove_dead(machine.env, time.time() + 60)
    assert lock.exists()
    remove_dead(machine.env, begin)
    assert not lock.exists()


@pytest.mark.slow
def test_folders_are_those_of_torch(tmp_path: Path) -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("no torch beside the tests")
    for env in (
        {},
        {"XDG_CACHE_HOME": f"{tmp_path}/cache"},
        {"TORCH_EXTENSIONS_DIR": f"{tmp_path}/e"},
    ):
        env |= {"HOME": str(tmp_path), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
        path = run_program([sys.executable, "-c", ASK], env=env).stdout.strip()
        root = folder(env)
        inner = Path(path).relative_to(root).parts
        assert inner[-1] == "fused"
        assert len(inner) == 1 + ("TORCH_EXTENSIONS_DIR" not in env)
        (Path(path) / "lock").touch()
        (seen,) = build_locks(LiveMachine(env)).locks
        assert seen.path == f"{path}/lock"


def test_nothing_is_there(tmp_path: Path) -> None:
    for env in ({}, {"HOME": str(tmp_path)}, {"TORCH_EXTENSIONS_DIR": "/dev/null"}):
        assert build_locks(LiveMachine(env)).locks == ()
