"""Breakages stay named beside each other, and healthy variations stay healthy; see pairs.py."""

import pytest

from ascend_doctor.findings import Level
from tests.level0.mutants import breakages, findings, news
from tests.level0.pairs import SEEDS, Group, fresh_pairs, groups

# The label follows from the parts alone and misses these.
EXPLAINED = {
    "netmask-differs-from-file + all-devices-gone": "there is no device to ask",
    "numpy-2-with-mindspeed + bare-host": "the bare host has no package at all",
    "npu-smi-no-card + all-devices-gone": "no trace of an NPU is left",
    "inside-torchrun + two-cards": "eight processes are really too many for two cards",
    "all-links-sys + npu-smi-says-nothing + inside-torchrun": "npu-smi shows no device to link",
    "all-links-sys + npu-smi-says-nothing + opp-of-another-cann": "npu-smi shows none to link",
    "link-empty + all-devices-gone": "there is no device to ask",
    "ports-reserved-in-part 60000-60015 + two-variables ['HCCL_HOST_SOCKET_PORT_RANGE', "
    "'61000-61050', 'HCCL_NPU_SOCKET_PORT_RANGE', '61020-61060', 'port-ranges']": (
        "HCCL takes other ports"
    ),
    "npu-smi-8020 + driver-on-disk-differs": "npu-smi does not say which driver runs",
    "file-of-torch-missing + table-without-health-hang-later of 7 + docker-ascend-runtime": (
        "NPU 7 is not one of the container's two"
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_every_breakage_is_named_and_nobody_else_accused(seed: int) -> None:
    faults = {group.id: list(group.faults()) for group in groups(seed)}
    assert {key for key, missed in faults.items() if missed} <= EXPLAINED.keys(), faults


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "count", "file"), [(2028, 40, "fresh"), (2029, 30, "outside"), (2031, 20, "sources")]
)
def test_two_kinds_of_breakages_are_both_named(seed: int, count: int, file: str) -> None:
    faults = {group.id: list(group.faults()) for group in fresh_pairs(seed, count, file)}
    assert {key for key, missed in faults.items() if missed} <= EXPLAINED.keys(), faults


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
