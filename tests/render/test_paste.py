"""Commands of a report are pasted as they are on the screen."""

import re
from collections.abc import Callable

import pytest

from ascend_doctor import language
from ascend_doctor.cli import run
from ascend_doctor.commands.options.output import Output
from ascend_doctor.findings import Finding, Level, Remedy
from ascend_doctor.render.formats import text
from ascend_doctor.render.page import Page
from ascend_doctor.report import Report
from tests.machines.compose import names
from tests.remedies import list_fixes, list_printed, list_typed, list_written, parse
from tests.render.test_formats import report as make_report
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
    assert parse(pasted) == ""


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_commands_of_checks_and_lint_rules_stay_whole(columns: int) -> None:
    commands = sorted({*list_written().values(), *list_printed()})
    remedies = [Remedy(summary="Mend it", commands=(command,)) for command in commands]
    broken = [Finding(check="x", level=Level.ERROR, title="x", remedy=each) for each in remedies]
    page = text.render(make_report(broken), color=True, width=columns)
    screen = [_COLOR.sub("", row) for row in page.splitlines() if _COMMAND.match(row)]
    lines = [line for command in commands for line in command.splitlines()]
    assert [row.lstrip() for row in screen] == [line.lstrip() for line in lines]
    assert parse("\n".join(screen)) == ""


@pytest.mark.parametrize("lang", language.LANGUAGES)
@pytest.mark.parametrize("columns", [40, 80, 120])
def test_commands_of_failures_stay_whole(columns: int, lang: str) -> None:
    before, pasted = language.current(), []
    language.choose(lang)
    for fix in list_fixes():
        page = Page(color=False, width=columns, ascii_only=False, label=10)
        page.field("Fix", fix)
        pasted += list_typed(page.rows)
        assert list_typed(page.rows) == list_typed([language.say(fix)])
    language.choose(before)
    assert parse("\n".join(pasted)) == ""
