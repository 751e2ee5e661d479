"""A diagnosis in Markdown: its own page, and nothing of a log is markup."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec
import pytest

from ascend_doctor import language
from ascend_doctor.diagnosis.result import Diagnosis
from ascend_doctor.render import diagnosis as text_page
from ascend_doctor.render import diagnosis_html
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


def test_what_to_type_next_is_a_block_of_its_own() -> None:
    text = render(of_text("starting\n"), next_step="ascend-doctor check")
    assert "### Type next\n\n```bash\nascend-doctor check\n```\n" in text
    assert "Type next" not in render(of_text("starting\n"))


@pytest.mark.usefixtures("pseudo_chinese")
def test_the_block_for_a_bug_report_passes_the_catalogue() -> None:
    language.choose("en")
    diagnosis = of_text(
        "[rank0]: Traceback (most recent call last):\n[rank0]: FrobError: no frob\n"
    )
    diagnosis = msgspec.structs.replace(diagnosis, paste=text_page.paste(diagnosis))
    assert "exception (1 x): " in diagnosis.paste
    language.choose("zh")
    for made in (render(diagnosis), text_page.render(diagnosis), diagnosis_html.render(diagnosis)):
        assert "exception (1 x)" not in made


@pytest.mark.usefixtures("pseudo_chinese")
@pytest.mark.parametrize("make", [of_job, of_unknown_error], ids=["known", "unknown"])
def test_every_sentence_of_a_page_passes_the_catalogue(make: Callable[[], Diagnosis]) -> None:
    quotes = re.compile(r"rank\d\.log:\d.*|`[^`]*`")
    rows = [quotes.sub("", row) for row in render(make(), next_step="x").splitlines()]
    assert [row for row in rows if re.search("[a-z]{2,} [a-z]{2,} [a-z]{2,}", row)] == []
    assert [row for row in rows if re.match("(?:#+|[-|]) [A-Za-z]{5,}", row)] == []
