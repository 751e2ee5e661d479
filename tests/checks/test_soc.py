import pytest

from ascend_doctor.facts import Npu, NpuBoard, Snapshot
from ascend_doctor.findings import Level
from tests.checks.machine import dist, having, healthy, only, packages, run


def chip(name: str) -> Snapshot:
    return having(healthy(), "npus", devices=(Npu(npu_id=0, name=name),))


def board(chip_name: str, npu_name: str) -> Snapshot:
    chip_board = NpuBoard(npu_id=0, chip_name=chip_name, npu_name=npu_name)
    return having(chip("Ascend910"), "npus", boards=(chip_board,))


def test_950_needs_a_newer_torch_npu() -> None:
    facts = chip("Ascend950PR")
    only("soc-unknown", facts, Level.ERROR, "does not know the chip Ascend950PR", "26.0.0", "7.3.0")
    newer = packages(facts, dist("torch-npu", "2.7.1.post4"))
    assert run("soc-unknown", newer)[0].level is Level.OK
    only("soc-unknown", packages(facts, dist("torch-npu", "7.7.7")), Level.UNKNOWN, "no table")


def test_one_chip_of_a3_needs_a_newer_one_too() -> None:
    only("soc-unknown", board("Ascend910", "9363"), Level.ERROR, "Ascend910_9363")
    assert run("soc-unknown", board("Ascend910", "9392"))[0].level is Level.OK
    only("soc-unknown", chip("Ascend910"), Level.UNKNOWN, "could not be told")


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
    only("soc-910b-confusion", chip("910B"), Level.OK, "not Atlas A2")
    only("soc-910b-confusion", chip("910B3"), Level.OK, "identified correctly")


def test_chips_that_mindspeed_does_not_support() -> None:
    findings = run("soc-training", chip("310P3"))
    assert [finding.level for finding in findings] == [Level.WARNING, Level.OK]
    findings = run("soc-training", chip("910B"))
    assert [finding.level for finding in findings] == [Level.WARNING, Level.OK]
    assert "first generation" in findings[0].title
    assert "no bfloat16" in findings[1].title


def test_without_an_npu_there_is_no_chip_to_mistake() -> None:
    facts = having(healthy(), "npus", devices=())
    facts = having(facts, "driver", nodes=(), pci=None, version=None)
    assert run("soc-910b-confusion", facts)[0].level is Level.SKIPPED
