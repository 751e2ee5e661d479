"""Lines of files with a caret: in place, escaped, and within the width."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_doctor.findings import Excerpt, Finding, Level
from ascend_doctor.render.excerpt import draw
from ascend_doctor.render.formats.sarif import web_address


def columns(text: str) -> int:
    return sum(
        0 if unicodedata.combining(letter) else 1 + (unicodedata.east_asian_width(letter) in "WF")
        for letter in text
    )


@pytest.mark.parametrize(
    ("line", "column", "under"),
    [
        ("TP=3", 1, "T"),
        ("export A=b", 8, "A"),
        ("\t\ttorchrun --x 1", 12, "--x"),
        ("    # \u4e2d\u6587 --x", 10, "--x"),
        ("a\x1b[31m --x", 8, "--x"),
        ("x" * 300 + " --wrong " + "y" * 300, 302, "--wrong"),
    ],
)
def test_the_caret_stands_under_the_column(line: str, column: int, under: str) -> None:
    shown, caret = draw(Excerpt(line=line, column=column), 7, 80, ascii_only=False)
    assert shown.startswith("     7 \u2502 ")
    assert columns(shown[: shown.index(under)]) == columns(caret) - 1
    assert columns(shown) <= 80


def test_without_a_column_there_is_no_caret() -> None:
    assert len(draw(Excerpt(line="TP=3"), 1, 80, ascii_only=True)) == 1


@given(st.text(), st.integers(0, 400), st.integers(40, 120))
def test_any_line_fits_and_is_harmless(line: str, column: int, width: int) -> None:
    rows = draw(Excerpt(line=line, column=column), 12, width, ascii_only=False)
    for row in rows:
        assert columns(row) <= width
        assert "\x1b" not in row
        assert "\n" not in row


def test_sources_become_addresses() -> None:
    assert (
        web_address("NVIDIA/Megatron-LM@core_v0.15.3:megatron/core/parallel_state.py:12")
        == "https://github.com/NVIDIA/Megatron-LM/blob/core_v0.15.3/megatron/core/parallel_state.py#L12"
    )
    assert web_address("https://kubernetes.io/docs/") == "https://kubernetes.io/docs/"
    assert web_address("javascript:alert(1)") == ""


def test_a_finding_needs_no_excerpt() -> None:
    assert Finding(level=Level.OK, title="x").excerpt is None
