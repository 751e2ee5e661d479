"""Commands of a report are pasted as they are on the screen."""

import re
from collections.abc import Callable

import pytest

from ascend_doctor.cli import run
from ascend_doctor.commands.options.output import Output
from ascend_doctor.findings import Level
from ascend_doctor.report import Report
from tests.machines.compose import names
from tests.programs import run_program
from tests.test_machines import folder_of

# Commands are cyan, SGR 36.
_COMMAND = re.compile(r"^ *\x1b\[36m.*\x1b\[0m$")
_COLOR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.parametrize("name", names())
def test_commands_on_the_screen_are_those_of_the_report(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    to_file = False
    emitted: list[tuple[Report, str]] = []

    def emit(_output: Output, report: Report, render: Callable[[str, bool], str], **_: int) -> None:
        for columns in ("40", "80", "120"):
            monkeypatch.setenv("COLUMNS", columns)
            emitted.append((report, render("text", to_file)))

    monkeypatch.setattr(Output, "emit", emit)
    options = ("--no-redact", "--color", "always", "-v")
    run(["check", "-l", "0", "--replay", str(folder_of(name)), *options])
    assert len(emitted) == 3
    pasted = ""
    for report, page in emitted:
        screen = [_COLOR.sub("", row) for row in page.splitlines() if _COMMAND.match(row)]
        findings = [finding for finding in report.findings if finding.level is not Level.OK]
        commands = {command for row in findings if row.remedy for command in row.remedy.commands}
        lines = {line.lstrip() for command in commands for line in command.splitlines()}
        assert {row.lstrip() for row in screen} == lines
        pasted += "".join(f"{row}\n" for row in screen)
    completed = run_program(["bash", "-n"], input=pasted, check=False, timeout=20)
    assert completed.stderr == ""
