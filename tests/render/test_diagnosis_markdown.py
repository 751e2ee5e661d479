"""A diagnosis in Markdown: its own page, and nothing of a log is markup."""

from __future__ import annotations

from ascend_doctor.render.diagnosis_markdown import render
from tests.diagnosis.logs import of_text
from tests.render.test_diagnosis_html import HOSTILE, of_job, of_unknown_error


def test_the_root_cause_stands_first_then_the_ranks() -> None:
    text = render(of_job())
    assert text.startswith("## error: NPU out of memory")
    assert text.index("### Root cause") < text.index("### Ranks")
    assert "| rank 1 | guilty |" in text
    assert "waits for 1" in text
    assert "<details><summary>What followed from it</summary>" in text


def test_an_error_of_its_own_stands_before_what_followed() -> None:
    text = render(of_unknown_error())
    assert text.startswith("## error: An error that the catalogue does not know")
    root, followed = text.index("### Root cause: An error"), text.index("### What followed: ")
    assert root < text.index("FrobError: no frob", root) < followed
    assert "Not explained" not in text


def test_nothing_of_a_log_is_markup() -> None:
    text = render(of_text(f"ValueError: @everyone {HOSTILE} | `x`\n"))
    assert "<script>" not in text
    assert "@everyone" not in text
