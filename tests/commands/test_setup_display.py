from pathlib import Path

import pytest

from ascend_doctor.commands.setup_display import SetupDisplay, _fold
from ascend_doctor.progress import ProgressBar
from ascend_doctor.provision.lock import Prefix
from ascend_doctor.provision.steps import Outcome


def test_a_long_row_of_a_plan_goes_on_where_it_began() -> None:
    row = f"  {'index':<22} torch==2.7.1: https://download.pytorch.org/whl/cpu, where yours has not"
    first, *more = _fold(row, 70)
    assert [first, *more] == [
        f"  {'index':<22} torch==2.7.1:",
        f"{'':25}https://download.pytorch.org/whl/cpu, where",
        f"{'':25}yours has not",
    ]
    assert _fold(row, 200) == [row]
    assert all(len(line) <= 40 for line in _fold(row, 40))


def test_what_was_no_step_has_no_time_of_the_step_before(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    display = SetupDisplay(Prefix(tmp_path), quiet=False, yes=True)
    with display.step("environment") as done:
        done("built", "2 wheels")
    display.end(Outcome("helpers_cpp", "built", "helpers_cpp.so"))
    lines = capsys.readouterr().err.splitlines()
    assert lines[1].startswith("built     environment: 2 wheels  (")
    assert lines[2] == "built     helpers_cpp: helpers_cpp.so"


def test_progress_is_shown_on_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert SetupDisplay(Prefix(tmp_path), quiet=False, yes=True).progress is None
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert SetupDisplay(Prefix(tmp_path), quiet=True, yes=True).progress is None
    display = SetupDisplay(Prefix(tmp_path), quiet=False, yes=True)
    assert display.progress is not None
    display.progress("Receiving objects:  45%\x1b[2J")
    assert "Receiving objects:  45%" in display._say_now()


def test_steps_that_were_passed_over_are_not_counted() -> None:
    progress = ProgressBar("steps")
    progress.add(("environment", "lock", "proof", "stack in use"))
    progress.end("environment")
    progress.begin("stack in use")
    progress.drop(("environment", "lock", "proof"))
    progress.end("stack in use")
    assert progress.count() == "2/2 steps"
