import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import psutil
import pytest

from ascend_doctor.fleet.supervised import Ending, run_supervised
from ascend_doctor.probing.processes import adopting_orphans
from tests.programs import until

DEAF = "trap '' TERM; setsid sleep 4321 & echo $! > {0}; echo $$ >> {0}; while :; do sleep 1; done"


def supervise(*command: str, seconds: float = 60) -> Ending:
    return msgspec.msgpack.decode(run_supervised(command, seconds, {}), type=Ending)


def pids(file: Path) -> list[int]:
    return [int(word) for word in file.read_text().split()] if file.exists() else []


def has_ended(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_command_that_ends() -> None:
    ending = supervise("sh", "-c", "echo out; echo err >&2; exit 3")
    assert (ending.code, ending.output, ending.errors) == (3, b"out\n", "err\n")


@pytest.mark.slow
def test_one_that_hears_no_signal_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    ending = supervise("sh", "-c", DEAF.format(tmp_path / "pids"), seconds=1)
    assert ending.code is None
    assert all(map(has_ended, pids(tmp_path / "pids")))


def test_what_it_leaves_in_the_temporary_folder_goes() -> None:
    ending = supervise("sh", "-c", "echo x > $TMPDIR/left; echo $TMPDIR")
    assert not os.path.exists(ending.output.decode().strip())


@pytest.mark.slow
@pytest.mark.parametrize("group", [False, True], ids=["the asker", "and the guard"])
def test_all_ends_where_the_one_who_asked_is_killed(tmp_path: Path, group: bool) -> None:
    code = "import sys; from ascend_doctor.fleet.supervised import run_supervised\n"
    code += "run_supervised(sys.argv[1:], 600, {})"
    command = ["sh", "-c", DEAF.format(tmp_path / "pids")]
    others = psutil.Process().children()
    with adopting_orphans():
        asker = subprocess.Popen([sys.executable, "-c", code, *command], start_new_session=True)
        try:
            assert until(lambda: len(pids(tmp_path / "pids")) == 2)
            assert not any(map(has_ended, pids(tmp_path / "pids")))
        finally:
            if group:
                os.killpg(asker.pid, signal.SIGKILL)
            else:
                asker.kill()
            asker.wait()
        assert until(lambda: all(map(has_ended, pids(tmp_path / "pids"))))
        for child in set(psutil.Process().children()).difference(others):
            child.wait(60)
