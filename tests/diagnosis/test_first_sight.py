"""What the first-sight set holds since the catalogue has learnt from it."""

from __future__ import annotations

import pytest

from tests.diagnosis.first_sight import LOGS, answers

FAILED = [
    *("failing", "vendor", "foreign"),
    *("second-failing", "second-foreign"),
    *("third-failing", "third-foreign"),
    *("fourth-failing", "fourth-foreign"),
    *("fifth-failing", "fifth-foreign"),
    *("sixth-failing", "sixth-foreign"),
    *("seventh-failing", "seventh-foreign"),
    *("eighth-failing", "eighth-foreign"),
    *("ninth-failing", "ninth-foreign"),
    *("tenth-failing", "tenth-foreign"),
    *("eleventh-failing", "eleventh-foreign"),
    *("twelfth-failing", "twelfth-foreign"),
    *("thirteenth-failing", "thirteenth-foreign"),
    *("fourteenth-failing", "fourteenth-foreign"),
    *("fifteenth-failing", "fifteenth-foreign"),
    *("sixteenth-failing", "sixteenth-foreign"),
    *("seventeenth-failing", "seventeenth-foreign"),
    *("eighteenth-failing", "eighteenth-foreign"),
]
COUNTS = (
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
    "eleventh",
    "twelfth",
    "thirteenth",
    "fourteenth",
    "fifteenth",
    "sixteenth",
    "seventeenth",
    "eighteenth",
)
# Where another program, or all that run on a host, hold what a rank needs, the rank that shows it
# is told; where the cause is said to be common to ranks, all of these. By their labels nobody is
# to be accused.
ACCUSED = {
    "a report on MindSpeed-MM on eight cards in a repository, 2026-06-15, 21:21",
    "https://github.com/areal-project/AReaL/issues/1099",
    "a thread of vllm-ascend kept in a repository, two instances on one server, 2025-12-04",
    "a log of vllm-omni on eight cards kept in a repository, 2026-10-10",
}
# Errors by their own words, of which only people know that they mean nothing.
UNKNOWN = {
    "the README of DeepSeek-V3 for Ascend in a repository, whose note says to ignore pip's error",
    "the documentation of vllm-ascend for an Atlas 300I Duo, which calls the last lines harmless",
    "the test of a hash encoder on an NPU in a repository, its output in a comment",
    (
        "a guide to an installation of Elasticsearch in a repository, whose note says to ignore "
        "the error"
    ),
    (
        "a guide to LMCache on Ascend in a repository, whose note says to ignore the assertion "
        "at the end"
    ),
    (
        "a report on vllm-ascend kept in a repository, the offline run that works before the "
        "server is tried"
    ),
    "https://github.com/fla-org/flash-linear-attention/pull/1011",
    "the same notes, prompts with the adapter",
}
# Their one cause is of those that need not end a run.
DEGRADED = {"npu-loss-zero-gradnorm-nan", "loss-scale-falling"}
# A hang in which every line that complains is a warning by its own level, and a title that says
# that answers are garbled in words that are no complaint.
UNTOLD = {
    "https://github.com/PaddlePaddle/FastDeploy/issues/2543",
    "https://github.com/lm-sys/FastChat/issues/3174",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", FAILED)
def test_no_failing_log_is_fine(kind: str) -> None:
    fine = [one for one in answers(kind) if one.exit_code == 0]
    fine = [one for one in fine if one.case.source not in UNTOLD]
    assert {one.case.now or one.case.root for one in fine} <= DEGRADED


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [f"{which}healthy" for which in ("", *(f"{count}-" for count in COUNTS))],
)
def test_no_healthy_log_is_accused(kind: str) -> None:
    told = answers(kind)
    assert {one.case.source for one in told if one.root != "none" and one.exit_code} <= UNKNOWN
    # An excerpt that ends while something starts shows no work.
    assert {one.exit_code for one in told} <= {0, 3}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "share"),
    [
        *[("failing", 0.97), ("vendor", 0.95), ("foreign", 1)],
        *[("second-failing", 0.91), ("second-foreign", 1)],
        *[("third-failing", 0.97), ("third-foreign", 1)],
        *[("fourth-failing", 1), ("fourth-foreign", 1)],
        *[("fifth-failing", 1), ("fifth-foreign", 1)],
        *[("sixth-failing", 1), ("sixth-foreign", 1)],
        *[("seventh-failing", 0.97), ("seventh-foreign", 1)],
        *[("eighth-failing", 1), ("eighth-foreign", 1)],
        *[("ninth-failing", 1), ("ninth-foreign", 1)],
        *[("tenth-failing", 1), ("tenth-foreign", 1)],
        *[("eleventh-failing", 0.96), ("eleventh-foreign", 1)],
        *[("twelfth-failing", 0.98), ("twelfth-foreign", 1)],
        *[("thirteenth-failing", 0.98), ("thirteenth-foreign", 1)],
        *[("fourteenth-failing", 0.98), ("fourteenth-foreign", 1)],
        *[("fifteenth-failing", 0.97), ("fifteenth-foreign", 1)],
        *[("sixteenth-failing", 0.95), ("sixteenth-foreign", 1)],
        *[("seventeenth-failing", 1), ("seventeenth-foreign", 1)],
        *[("eighteenth-failing", 0.94), ("eighteenth-foreign", 0.96)],
    ],
)
def test_what_was_learnt_stays_known(kind: str, share: float) -> None:
    told = answers(kind)
    assert sum(one.right for one in told) / len(told) >= share


@pytest.mark.slow
@pytest.mark.parametrize("kind", FAILED)
def test_nobody_is_accused_wrongly(kind: str) -> None:
    wrong = {one.case.source for one in answers(kind) if one.guilty == "wrong"}
    assert wrong <= ACCUSED


@pytest.mark.slow
@pytest.mark.skipif(not LOGS, reason="ASCEND_DOCTOR_TEST_LOGS names no folder with these logs")
@pytest.mark.parametrize("number", ["twenty-third", "twenty-fourth", "twenty-fifth"])
def test_what_is_not_carried_stays_known(number: str) -> None:
    failing, foreign, healthy = (
        answers(f"{number}-{kind}") for kind in ("failing", "foreign", "healthy")
    )
    assert all(one.exit_code for one in (*failing, *foreign))
    assert {one.exit_code for one in healthy} <= {0, 3}
    assert not any(one.guilty == "wrong" for one in failing)
    assert sum(one.right for one in (*failing, *foreign)) >= 0.9 * len((*failing, *foreign))


def test_the_device_of_the_vendor_s_own_tests_is_named() -> None:
    judged = [one for one in answers("vendor") if one.guilty]
    assert sum(one.guilty == "right" for one in judged) == len(judged) == 10
