"""A command that only reads ends where a file never answers, and goes on where it works."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from ascend_doctor.cli import run
from ascend_doctor.errors import DataError
from ascend_doctor.exits import describe_exhaustion
from ascend_doctor.machine import files, watchdog
from ascend_doctor.machine.patience import VARIABLE
from ascend_doctor.machine.waiting import Deadline


def test_a_process_that_sleeps_has_stopped_unless_its_reader_is_slow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Deadline, "idle", lambda *_: 61.0)
    monkeypatch.setattr(Deadline, "spent", 61.0)
    assert watchdog._Work(60).has_stopped()
    assert not watchdog._Work(62).has_stopped()
    monkeypatch.setattr(watchdog, "_is_writing", lambda: True)
    assert not watchdog._Work(60).has_stopped()


def test_the_seconds_of_a_run_count_from_its_entry_and_those_of_a_part_from_its_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dog = watchdog._Watchdog(1000.0)
    monkeypatch.setattr(watchdog, "_dog", dog)
    monkeypatch.setattr(watchdog, "time", SimpleNamespace(monotonic=lambda: 1500.0))
    monkeypatch.setenv(VARIABLE, "1")
    with watchdog.watch(900, lambda *_: 3):  # the proof of a setup that built for long
        assert dog.end == 1500 + 900 + 45
    assert dog.end is None
    assert watchdog.start_of_run() == 1500
    watchdog.limit(60)
    assert dog.end == 1000 + 60 + 5
    assert watchdog.start_of_run() == 1000
    monkeypatch.setenv(VARIABLE, "10")
    watchdog.be_patient()
    with watchdog.watch(60, lambda *_: 3):
        assert dog.end == 1000 + 600 + 30
    watchdog.limit(None)
    assert dog.end is None


@pytest.mark.parametrize(
    "command", ["lint", "judge", "setup", "env", "diagnose", "snapshot", "matrix why", "stack list"]
)
def test_every_command_has_a_limit(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*command.split(), "--timeout", "0"]) == 2
    assert "'--timeout': 0.0 is not in the range x>=1" in capsys.readouterr().err


def test_folders_are_walked_in_order_and_not_without_an_end(tmp_path: Path) -> None:
    for name in ("b/2", "b/1", "a/3", "c"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "x.log").touch()
    (tmp_path / "link").symlink_to(tmp_path)
    visited = [os.path.relpath(folder, tmp_path) for folder, _ in files.walk_folders(str(tmp_path))]
    assert visited == [".", "a", "a/3", "b", "b/1", "b/2", "c"]
    deep = tmp_path / "/".join("d" for _ in range(files.MAX_DEPTH + 1))
    deep.mkdir(parents=True)
    with pytest.raises(DataError, match="folders more than 100 deep"):
        list(files.walk_folders(str(tmp_path)))


@pytest.mark.parametrize("command", ["diagnose", "lint", "merge"])
def test_a_deep_folder_is_bad_data(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "/".join("d" for _ in range(files.MAX_DEPTH + 1))).mkdir(parents=True)
    assert run([command, str(tmp_path)]) == 2
    assert "name the one you mean" in capsys.readouterr().err


def test_a_matrix_with_an_impossible_name_is_bad_data(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ASCEND_DOCTOR_MATRIX", "/" + "x" * 5000)
    assert run(["explain", "EI0006"]) == 2
    assert "no such folder" in capsys.readouterr().err


def test_a_summary_that_is_a_pipe_is_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(DataError, match="pipe: cannot be written"):
        files.append_text(str(pipe), "text")
    files.append_text(str(tmp_path / "page"), "a")
    files.append_text(str(tmp_path / "page"), "b")
    assert (tmp_path / "page").read_text() == "ab"


def test_what_a_machine_does_not_give_is_no_bug() -> None:
    assert describe_exhaustion(OSError(24, "Too many open files", "x"))
    assert describe_exhaustion(RuntimeError("can't start new thread"))
    assert describe_exhaustion(FileNotFoundError(2, "No such file", "/dev/null"))
    assert not describe_exhaustion(ImportError("no module"))
    assert not describe_exhaustion(FileNotFoundError(2, "No such file", "x"))
