from __future__ import annotations

import statistics

import pytest

from tests.render.lengths import BROKEN, PAGE, before, fill_page, measure, report

_SCREEN = 24
_MEDIAN = 35
# The first remedy is an installation, which no command does.
INSTALLED_FROM_A_PAGE = {"torch-npu-without-cann"}


@pytest.fixture(autouse=True)
def columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")


@pytest.mark.slow
def test_the_median_report_of_a_broken_machine_is_short() -> None:
    assert len(BROKEN) > 15
    assert statistics.median(measure(report(name)).lines for name in BROKEN) < _MEDIAN


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({*BROKEN} - INSTALLED_FROM_A_PAGE))
def test_the_first_command_is_on_the_first_screen(name: str) -> None:
    first = measure(report(name)).first
    assert first is not None
    assert first <= _SCREEN


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
def test_a_report_is_no_longer_than_before(name: str) -> None:
    old, new = before()[name], measure(report(name))
    assert new.lines <= old.lines + 15
    # A stack without an NPU was no error then.
    assert new.errors <= old.errors + (name == "npus-gone")


@pytest.mark.slow
def test_the_page_has_the_figures_of_today() -> None:
    assert PAGE.read_text("utf-8") == fill_page(PAGE.read_text("utf-8"))


def test_what_is_measured() -> None:
    text = "head\n\n✗ Host\n\n✗ a b                id\n  Fix  c\n              d\n\n✗ 1 error\n"
    assert measure(text) == (9, 1, 7, 9)
    assert measure("head\n").first is None
