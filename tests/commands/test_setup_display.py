from __future__ import annotations

from pathlib import Path

import pytest

from ascend_doctor.commands.setup_display import SetupDisplay
from ascend_doctor.provision.lock import Prefix
from ascend_doctor.provision.steps import Outcome


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
