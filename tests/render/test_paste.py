"""Commands of a report are pasted as they are on the screen."""

from __future__ import annotations

import json
import re
import subprocess

import pytest

from ascend_doctor.cli import run
from tests.machines.compose import names
from tests.test_machines import folder_of

# What commands are drawn with; SGR 36 is cyan.
_COMMAND = re.compile(r"^ *\x1b\[36m.*\x1b\[0m$")
_COLOR = re.compile(r"\x1b\[[0-9;]*m")


def rendered(capsys: pytest.CaptureFixture[str], name: str, *options: str) -> str:
    """What a check of a recorded machine prints."""
    arguments = ["check", "-l", "0", "--no-redact", "--replay", str(folder_of(name)), *options]
    run(arguments)
    return capsys.readouterr().out


@pytest.mark.parametrize("columns", ["40", "80", "120"])
@pytest.mark.parametrize("name", names())
def test_commands_on_the_screen_are_those_of_the_report(
    name: str,
    columns: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    page = rendered(capsys, name, "--color", "always", "-v")
    screen = [_COLOR.sub("", row) for row in page.splitlines() if _COMMAND.match(row)]
    report = json.loads(rendered(capsys, name, "--format", "json"))
    remedies = [row["remedy"] or {} for row in report["findings"] if row["level"] != "ok"]
    commands = {command for remedy in remedies for command in remedy.get("commands", [])}
    lines = {line.lstrip() for command in commands for line in command.splitlines()}
    assert {row.lstrip() for row in screen} == lines
    completed = subprocess.run(
        ["bash", "-n"],
        input="\n".join(screen) + "\n",
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )
    assert completed.stderr == ""
