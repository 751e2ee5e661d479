"""Cause and remedy of CANN's error codes, in both languages."""

from __future__ import annotations

import re

import pytest

from ascend_doctor.machine.parsing import read_yaml
from tests.conftest import Command
from tests.diagnosis.logs import catalog

GUIDES = catalog().error_guides
# Those that the log of a job on NPUs shows most: runtime, ACL, HCCL, driver, profiling, dump.
FAMILIES = re.compile(r"E[EHIJLP][0-8]\d{3}|EK0\d{3}")
HAN = re.compile(r"[\u4e00-\u9fff]")


def test_every_code_of_these_families_has_a_guide() -> None:
    reported = catalog().error_codes.reported
    assert set(GUIDES) <= set(reported)
    assert [code for code in reported if FAMILIES.fullmatch(code) and code not in GUIDES] == []
    assert len(GUIDES) == 297


def test_no_code_has_two_guides() -> None:
    (path,) = catalog().single("error-guides.yaml")
    rows = read_yaml(path)["guides"]
    assert sum(len(row["codes"]) for row in rows) == len(GUIDES)


def test_a_guide_says_it_in_both_languages() -> None:
    for code, guide in GUIDES.items():
        for text in (guide.cause, guide.remedy):
            assert text.endswith("."), code
            assert not HAN.search(text), code
        for text in (guide.cause_zh, guide.remedy_zh):
            assert text.endswith("。"), code
            assert HAN.search(text), code


@pytest.mark.slow
def test_explain_shows_them(doctor: Command) -> None:
    for language, words in (("en", "Wait and try again"), ("zh", "等待后重试")):
        page = doctor("explain", "EL0005", "--lang", language).stdout
        assert words in page
        assert "device-busy-el0005" in page
