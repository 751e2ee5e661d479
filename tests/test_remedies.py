import re
import shlex
from pathlib import Path

import pytest

from ascend_doctor.cli import run as run_doctor
from tests.remedies import (
    PAGE,
    how,
    list_fixes,
    list_printed,
    list_typed,
    list_unprinted,
    list_written,
    page,
    parse,
    run,
    works,
)

pytestmark = pytest.mark.slow

# A placeholder, as <file> or IMAGE; shell variables are none.
_WORDS = "IMAGE|FILE|PATH|DIR|NODE|NAME|ADDRESS|N"
_PLACEHOLDER = re.compile(rf"<[a-z]|(?<![\w${{/-])(?:{_WORDS})\b(?![=:])")


def test_there_are_commands_to_look_at() -> None:
    assert len(list_printed()) > 100
    assert len(list_written()) > 80
    assert len({*list_typed(list_fixes())}) > 50


def test_a_command_that_is_none_is_seen() -> None:
    assert parse("echo 'a")
    assert parse("for i in 1; do echo")


def test_no_command_has_a_word_to_be_replaced() -> None:
    commands = {*list_printed(), *list_written().values(), *list_typed(list_fixes())}
    assert [command for command in commands if _PLACEHOLDER.search(command)] == []


def test_every_command_can_be_typed(tmp_path: Path) -> None:
    failed = {}
    for command in list_printed():
        code, calls, errors = run(command, tmp_path)
        if code or errors:
            failed[command] = f"{code}: {errors}"
        elif how(command) == "stand-ins":
            assert calls, command
    assert failed == {}


def test_what_no_machine_printed_can_be_typed() -> None:
    commands = {*list_unprinted(), *list_typed(list_fixes())}
    assert [command for command in commands if not works(command)] == []
    assert not works("no-such-program")


def test_a_stand_in_gets_the_words_that_stand_there(tmp_path: Path) -> None:
    _, calls, _ = run("for i in 0 3; do sudo npu-smi -i $i; done", tmp_path)
    assert calls == ["sudo npu-smi -i 0", "sudo npu-smi -i 3"]
    assert run("git clone 'a", tmp_path)[0] != 0
    assert run("no-such-program", tmp_path)[0] != 0


def test_the_shell_has_the_variables_after_it(tmp_path: Path) -> None:
    commands = [line for line in list_printed() if line.startswith(("export ", "unset "))]
    assert commands
    for command in commands:
        names = re.findall(r"(\w+)=", command) or shlex.split(command)[1:]
        shown = " ".join(f'"${{{name}-unset}}"' for name in names)
        line = f"export {names[0]}=before; {command}; sudo {shown}"
        code, calls, _ = run(line, tmp_path)
        assert (code, len(calls)) == (0, 1), command
        values = calls[0].removeprefix("sudo ")
        if command.startswith("unset "):
            assert values.split() == ["unset"] * len(names), command
        else:
            assert "unset" not in values.split(), command
            assert values != "before", command


def test_what_only_looks_is_run(capsys: pytest.CaptureFixture[str]) -> None:
    commands = [line for line in list_printed() if how(line) == "in earnest"]
    assert commands
    for command in commands:
        assert run_doctor(shlex.split(command)[1:]) == 0, command
        assert capsys.readouterr().out.strip(), command


def test_the_page_is_that_of_today() -> None:
    assert PAGE.read_text("utf-8") == page()
