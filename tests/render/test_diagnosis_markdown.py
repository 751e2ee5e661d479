"""A diagnosis in Markdown: its own page, and nothing of a log is markup."""

from __future__ import annotations

from ascend_doctor.render.diagnosis_markdown import render
from tests.diagnosis.logs import of_text
from tests.render.test_diagnosis_html import HOSTILE, of_job


def test_the_root_cause_stands_first_then_the_ranks() -> None:
    text = render(of_job())
    assert text.startswith("## error: NPU out of memory")
    assert text.index("### Root cause") < text.index("### Ranks")
    assert "| rank 1 | guilty |" in text
    assert "waits for 1" in text
    assert "<details><summary>What followed from it</summary>" in text


def test_nothing_of_a_log_is_markup() -> None:
    text = render(of_text(f"ValueError: @everyone {HOSTILE} | `x`\n"))
    assert "<script>" not in text
    assert "@everyone" not in text
