"""Cause and remedy of CANN's error codes, which explain a line that nothing else does."""

import re

import pytest

from ascend_doctor.commands.explain import pages_by_name
from ascend_doctor.machine.parsing import read_yaml
from tests.conftest import Command
from tests.diagnosis.logs import answer, catalog, of_text

GUIDES = catalog().error_guides
# Most frequent in NPU jobs' logs: runtime, ACL, HCCL, driver, profiling, dump.
FAMILIES = re.compile(r"E[EHIJLP][0-8]\d{3}|EK0\d{3}")
FAILURES = {
    name: row
    for name, row in catalog().recognized_failures.items()
    if name not in catalog().failures
}


def test_what_to_do_is_said_of_every_code_of_these_families() -> None:
    """By its guide, or by the known failure whose only sign it is."""
    reported = catalog().error_codes.reported
    assert set(GUIDES) <= {*reported, *map(str, catalog().error_codes.acl)}
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


def test_a_code_with_a_guide_is_a_known_failure() -> None:
    assert len(FAILURES) > 150
    for name, failure in FAILURES.items():
        printed = f"{failure.codes}: " if name.startswith("e") else failure.example
        diagnosis = of_text(f"{failure.example}\n{printed}\n")
        assert failure.codes in diagnosis.causes[0].title
        assert (diagnosis.causes[0].id, diagnosis.causes[0].count) == (name, 2)
        assert diagnosis.exit_code == (1 if failure.severity == "fatal" else 3), name
        assert set(failure.beats) <= set(catalog().failures), name


@pytest.mark.parametrize(
    ("line", "root"),
    [
        ("W40010: a variable is ignored", "none"),
        ("E19999: Inner Error", "cann-inner-error-generic"),
        ("E40020: The interpreter failed", "e40020"),
        ("E40020: Failed to import Python module [tbe]", "tbe-python-module-import-failed"),
    ],
)
def test_warnings_inner_errors_and_lines_with_a_failure_of_their_own(line: str, root: str) -> None:
    assert answer(of_text(f"{line}\n")) == root


@pytest.mark.slow
def test_explain_shows_them(doctor: Command) -> None:
    for language, words in (("en", "look for an earlier failure first"), ("zh", "接口入参非法")):
        assert words in doctor("explain", "EE1001", "--lang", language).stdout
    assert "\nhccl-ranktable-load-ei0004: " in doctor("explain", "EI0004").stdout
