"""A job that runs now and was not started by the doctor: its ranks, and which of them waits."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ascend_doctor.commands.hang import command
from tests.conftest import Command

pytestmark = pytest.mark.slow

Ranks = Sequence[subprocess.Popen[bytes]]
Ask = Callable[..., tuple[int, dict[str, Any]]]
# Module and function named as in torch: a rank is seen to wait for others.
LIBRARY = "import time\ndef barrier():\n    time.sleep(600)\n"
PROGRAM = """\
import os, sys, time
from torch.distributed import distributed_c10d
kind = sys.argv[1].split(",")[int(os.environ["RANK"])]
print(flush=True)
def wait():
    time.sleep(600)
def read():
    os.read(os.pipe()[0], 1)
def work():
    while True:
        for name in ("first", "second"):
            globals()[name]()
def first():
    time.sleep(0.3)
def second():
    time.sleep(0.3)
{"barrier": distributed_c10d.barrier, "wait": wait, "read": read, "work": work}[kind]()
"""


@contextlib.contextmanager
def job(folder: Path, *kinds: str, **env: str) -> Iterator[list[subprocess.Popen[bytes]]]:
    """A rank for each kind, started as torchrun does."""
    library = folder / "site-packages" / "torch" / "distributed"
    library.mkdir(parents=True)
    for path, text in (
        ("../__init__.py", ""),
        ("__init__.py", ""),
        ("distributed_c10d.py", LIBRARY),
    ):
        (library / path).write_text(text)
    program = folder / "train.py"
    program.write_text(PROGRAM)
    ranks = []
    for rank in range(len(kinds)):
        variables = {
            "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(len(kinds)),
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1", "PYTHONPATH": str(library.parents[1]),
        }  # fmt: skip
        ranks.append(
            subprocess.Popen(
                [sys.executable, str(program), ",".join(kinds)],
                env={**os.environ, **variables, **env},
                stdout=subprocess.PIPE,
            )
        )
    for process in ranks:
        assert process.stdout
        process.stdout.readline()
    time.sleep(0.5)
    try:
        yield ranks
    finally:
        for process in ranks:
            process.kill()
            process.communicate()


@pytest.fixture
def ask(installed: Command) -> Ask:
    """Ask about the job of these ranks; gives the exit code and the answer."""

    def run(ranks: Ranks, *options: str) -> tuple[int, dict[str, Any]]:
        named = ["--pid", str(ranks[0].pid), "--watch", "2", "--json", "--no-redact"]
        done = installed("hang", *named, *options)
        return done.returncode, json.loads(done.stdout)

    return run


def test_the_rank_that_does_not_come_is_named_with_its_line(ask: Ask, tmp_path: Path) -> None:
    with job(tmp_path, "barrier", "barrier", "wait") as ranks:
        code, answer = ask(ranks)
        assert all(process.poll() is None for process in ranks)
    (absent,) = answer["stall"]["absent"]
    assert (code, absent["rank"], absent["reason"]) == (1, 2, "it sleeps")
    assert absent["line"] == f"{tmp_path}/train.py:6 in wait"


def test_what_a_rank_reads_is_told(ask: Ask, tmp_path: Path) -> None:
    with job(tmp_path, "read", "barrier") as ranks:
        code, answer = ask(ranks)
    (absent,) = answer["stall"]["absent"]
    assert (code, absent["rank"]) == (1, 0)
    assert absent["reason"].startswith("it waits to read pipe:[")


def test_a_stopped_rank_is_named(ask: Ask, tmp_path: Path) -> None:
    with job(tmp_path, "barrier", "barrier") as ranks:
        ranks[1].send_signal(signal.SIGSTOP)
        time.sleep(0.2)
        code, answer = ask(ranks)
    assert (code, answer["stall"]["absent"][0]["kind"]) == (1, "stopped")


def test_a_rank_that_moves_is_said_to_work(ask: Ask, tmp_path: Path) -> None:
    with job(tmp_path, "barrier", "barrier", "work") as ranks:
        code, answer = ask(ranks)
    assert (code, answer["stall"]["absent"][0]["kind"]) == (1, "working")


def test_a_job_that_goes_on_is_fine(installed: Command, tmp_path: Path) -> None:
    with job(tmp_path, "work", "work") as ranks:
        done = installed("hang", "--pid", str(ranks[0].pid), "--watch", "2")
    assert done.returncode == 0
    assert "The job goes on" in done.stdout


def test_nobody_is_named_where_all_wait(ask: Ask, tmp_path: Path) -> None:
    with job(tmp_path, "barrier", "barrier") as ranks:
        code, answer = ask(ranks)
    assert (code, answer["stall"]["absent"]) == (3, [])
    assert "all 2 ranks wait" in answer["stall"]["undecided"]


def test_without_py_spy_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("machine.processes", "commands.hang"):
        monkeypatch.setattr(f"ascend_doctor.{module}.find_spy", lambda: None)
    with job(tmp_path, "barrier", "read") as ranks:
        done = CliRunner().invoke(command, ["--pid", str(ranks[0].pid), "--watch", "0"])
    assert "-m pip install py-spy && ascend-doctor hang --pid" in done.stderr
    assert "rank 0: it sleeps, rank 1: it waits to read pipe:" in " ".join(done.stdout.split())


def test_what_was_seen_is_kept_and_read_again(ask: Ask, installed: Command, tmp_path: Path) -> None:
    with job(tmp_path, "barrier", "wait") as ranks:
        _, answer = ask(ranks, "--keep", str(tmp_path / "kept"))
    again = json.loads(
        installed("diagnose", str(tmp_path / "kept"), "--json", "--no-redact").stdout
    )
    assert again["stall"] == answer["stall"]


def test_one_of_several_jobs_is_asked_for(installed: Command, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with job(tmp_path / "a", "wait"), job(tmp_path / "b", "wait", MASTER_PORT="2"):
        done = installed("hang", "--watch", "0")
    assert done.returncode == 2
    assert "choose one: --pid" in done.stderr


@pytest.mark.parametrize("options", [("--pid", "2"), ("--slurm", "no-such-job")])
def test_no_such_job(installed: Command, options: Sequence[str]) -> None:
    done = installed("hang", *options)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
