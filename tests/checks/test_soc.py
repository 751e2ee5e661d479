import pytest

from ascend_doctor.facts import Npu, NpuBoard, Snapshot
from ascend_doctor.findings import Level
from tests.checks.levels import cannot_tell, fails, passes
from tests.checks.machine import dist, having, healthy, packages, run


def chip(name: str) -> Snapshot:
    return having(healthy(), "npus", devices=(Npu(npu_id=0, name=name),))


def board(chip_name: str, npu_name: str) -> Snapshot:
    chip_board = NpuBoard(npu_id=0, chip_name=chip_name, npu_name=npu_name)
    return having(chip("Ascend910"), "npus", boards=(chip_board,))


def test_950_needs_a_newer_torch_npu() -> None:
    facts = chip("Ascend950PR")
    fails("soc-unknown", facts, "does not know the chip Ascend950PR", "26.0.0", "7.3.0")
    newer = packages(facts, dist("torch-npu", "2.7.1.post4"))
    passes("soc-unknown", newer)
    cannot_tell("soc-unknown", packages(facts, dist("torch-npu", "7.7.7")), "no table")


def test_one_chip_of_a3_needs_a_newer_one_too() -> None:
    fails("soc-unknown", board("Ascend910", "9363"), "Ascend910_9363")
    passes("soc-unknown", board("Ascend910", "9392"))
    cannot_tell("soc-unknown", chip("Ascend910"), "could not be told")


@pytest.mark.parametrize(
    ("chip", "version", "level"),
    [
        ("910B3", "0.11.0", Level.OK),
        ("910A", "0.23.0", Level.ERROR),
        ("Ascend950PR", "0.18.0", Level.WARNING),
        ("Ascend950PR", "0.23.0", Level.OK),
    ],
)
def test_chips_that_vllm_ascend_lacks(chip: str, version: str, level: Level) -> None:
    facts = packages(healthy(), dist("vllm-ascend", version))
    facts = having(facts, "npus", devices=(Npu(npu_id=0, name=chip),))
    assert run("vllm-ascend-chip", facts)[0].level is level


def test_910b_without_a_digit() -> None:
    passes("soc-910b-confusion", chip("910B"), "not Atlas A2")
    passes("soc-910b-confusion", chip("910B3"), "identified correctly")


def test_chips_that_mindspeed_does_not_support() -> None:
    findings = run("soc-training", chip("310P3"))
    assert [finding.level for finding in findings] == [Level.ERROR, Level.OK]
    findings = run("soc-training", chip("910B"))
    assert [finding.level for finding in findings] == [Level.WARNING, Level.OK]
    assert "first generation" in findings[0].title
    assert "no bfloat16" in findings[1].title
