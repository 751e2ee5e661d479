"""Reports of the recorded broken machines are short, and say early what to type."""

import contextlib
import functools
import io
import re
import statistics
from typing import NamedTuple

import pytest

from ascend_doctor.cli import run
from tests.present import present
from tests.test_machines import HEALTHY, NAMES, folder_of

BROKEN = tuple(name for name in NAMES if name not in HEALTHY)
_SCREEN = 24
_MEDIAN = 35
_LONGEST = 70
# Deeper than the text of a field.
_COMMAND = re.compile(r"^ {14}\S|^\S+ <<")
# The first remedy is an installation without a command.
INSTALLED_FROM_A_PAGE = {"torch-npu-without-cann"}


class Length(NamedTuple):
    lines: int
    first: int | None


def measure(text: str) -> Length:
    rows = text.splitlines()
    commands = (number for number, row in enumerate(rows, 1) if _COMMAND.match(row))
    return Length(len(rows), next(commands, None))


@functools.cache
def report(name: str) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        run(["check", "-l", "0", "-q", "--replay", str(folder_of(name)), "--redact"])
    return out.getvalue()


@pytest.fixture(autouse=True)
def columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")


@pytest.mark.slow
def test_reports_of_broken_machines_are_short() -> None:
    assert len(BROKEN) > 15
    lines = [measure(report(name)).lines for name in BROKEN]
    assert statistics.median(lines) < _MEDIAN
    assert max(lines) < _LONGEST


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({*BROKEN} - INSTALLED_FROM_A_PAGE))
def test_the_first_command_is_on_the_first_screen(name: str) -> None:
    first = present(measure(report(name)).first)
    assert first <= _SCREEN


def test_what_is_measured() -> None:
    text = "head\n\n✗ Host\n\n✗ a b                id\n  Fix  c\n              d\n\n✗ 1 error\n"
    assert measure(text) == (9, 7)
    assert measure("head\n").first is None
