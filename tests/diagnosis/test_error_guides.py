"""Cause and remedy of CANN's error codes, in both languages."""

import re

import pytest

from ascend_doctor.commands.explain import pages_by_name
from ascend_doctor.machine.parsing import read_yaml
from tests.conftest import Command
from tests.diagnosis.logs import catalog

GUIDES = catalog().error_guides
# Most frequent in NPU jobs' logs: runtime, ACL, HCCL, driver, profiling, dump.
FAMILIES = re.compile(r"E[EHIJLP][0-8]\d{3}|EK0\d{3}")
HAN = re.compile(r"[\u4e00-\u9fff]")


def test_what_to_do_is_said_of_every_code_of_these_families() -> None:
    """By its guide, or by the known failure whose only sign it is."""
    reported = catalog().error_codes.reported
    assert set(GUIDES) <= set(reported)
    codes = list(filter(FAMILIES.fullmatch, reported))
    assert len(codes) > 90
    pages = {code: "".join(pages_by_name(code, catalog())) for code in codes}
    assert [
        code for code in codes if "Remedy:" not in pages[code] and "do:" not in pages[code]
    ] == []


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
    for language, words in (("en", "look for an earlier failure first"), ("zh", "接口入参非法")):
        assert words in doctor("explain", "EE1001", "--lang", language).stdout
    assert "\nhccl-ranktable-load-ei0004: " in doctor("explain", "EI0004").stdout
