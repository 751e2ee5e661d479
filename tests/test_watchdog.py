"""A command that only reads ends where a file never answers, and goes on where it works."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from ascend_doctor.cli import run
from ascend_doctor.errors import DataError
from ascend_doctor.exits import describe_exhaustion
from ascend_doctor.machine import files, watchdog


def test_a_process_that_sleeps_has_stopped_and_one_that_computes_has_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watchdog, "_is_runnable", lambda: False)
    asleep, busy = watchdog._Work(0.01), watchdog._Work(0.01)
    time.sleep(0.05)
    assert asleep.has_stopped()
    until = time.process_time() + 2 * watchdog._IDLE
    while time.process_time() < until:
        pass
    assert not busy.has_stopped()


def test_a_process_that_waits_for_a_processor_has_not_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watchdog, "_is_runnable", lambda: True)
    waiting = watchdog._Work(0.01)
    time.sleep(0.05)
    assert not waiting.has_stopped()


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
