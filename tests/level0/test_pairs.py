"""Breakages stay named beside each other, and healthy variations stay healthy; see pairs.py."""

import pytest

from ascend_doctor.findings import Level
from tests.level0.mutants import breakages, findings, news
from tests.level0.pairs import SEEDS, Group, fresh_pairs, groups

# The label follows from the parts alone and misses these.
EXPLAINED = {
    "torch-npu-library-gone + bare-host": "the bare host has no torch_npu at all",
    "net-health-fault + two-cards": "the device with the fault is not one of the two",
    "half-the-hbm + container-without-manager + hccn-conf-gone": "container-files names the file",
    "not-sourced + link-empty of 7 + cann-python-gone": "not sourced, nothing is importable",
    "no-root-in-group-of-a2 of 2 + kubernetes": "one puts files back that the other takes",
}


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_every_breakage_is_named_and_nobody_else_accused(seed: int) -> None:
    faults = {group.id: list(group.faults()) for group in groups(seed)}
    assert {key for key, missed in faults.items() if missed} <= EXPLAINED.keys(), faults


@pytest.mark.slow
def test_two_fresh_breakages_are_both_named() -> None:
    faults = {group.id: list(group.faults()) for group in fresh_pairs(2028, 40)}
    assert {key: missed for key, missed in faults.items() if missed} == {}


def _both(*ids: str) -> Group:
    rows = {row.id: row for row in breakages()}
    return Group(kind="broken", parts=tuple(rows[key] for key in ids))


def test_an_environment_of_a_folder_that_is_no_known_cann_is_not_fine() -> None:
    whole = _both("cann-version-gone", "opp-of-another-cann").whole()
    assert [(check, level) for check, level, _ in news(whole)] == [("cann-sourced", Level.UNKNOWN)]


def test_symbols_of_a_library_that_is_gone_are_not_fine() -> None:
    whole = _both("torch-npu-library-gone", "cann-too-old-and-lacking").whole()
    levels = {finding.check: finding.level for finding in findings(whole.machine())}
    assert levels["torch-npu-cann-symbols"] is Level.SKIPPED
    assert levels["torch-npu-libraries"] is Level.ERROR


def test_a_breakage_that_is_hidden_is_noticed() -> None:
    assert list(_both("link-sys", "npu-smi-8020").faults()) == ["link-sys is not named"]
