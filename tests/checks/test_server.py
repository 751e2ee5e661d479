import shlex

import pytest

from ascend_doctor.facts import (
    Snapshot,
)
from ascend_doctor.findings import Level
from ascend_doctor.judging.judge import Case, judge
from tests.checks.machine import CATALOG, CHECKS, having, run
from tests.checks.server import a2, a3, inside

MODULES = (
    "container",
    "devices",
    "driver",
    "host",
    "network",
    "network_links",
    "npu_smi",
    "npu_alike",
    "npus",
    "ports",
    "processes",
    "rank_table",
    "sockets",
    "settings",
    "variables",
    "visible_devices",
)
MINE = sorted(
    name for name, check in CHECKS.items() if check.run.__module__.rpartition(".")[2] in MODULES
)
# Judged anywhere: what a variable may be, what the operating system grants.
ANYWHERE = {"shared-memory"}


@pytest.mark.parametrize("machine", [a2, a3])
def test_a_healthy_server_has_no_complaint(machine: type[Snapshot]) -> None:
    for identity in MINE:
        for finding in run(identity, machine()):
            assert finding.level <= Level.SKIPPED, finding


def test_a_healthy_container_has_no_complaint() -> None:
    for identity in MINE:
        for finding in run(identity, inside(a2())):
            assert finding.level <= Level.SKIPPED, finding


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_npu_checks_do_not_apply_to_other_devices(device: str) -> None:
    for identity in set(MINE) - ANYWHERE:
        (finding,) = run(identity, a2(), device)
        assert finding.level is Level.SKIPPED, finding
        assert f"the examined device is {device}" in finding.title, finding


def laptop() -> Snapshot:
    """No trace of Ascend."""
    facts = having(a2(), "driver", version=None, path=None, install_info=None, nodes=(), pci=())
    facts = having(facts, "npus", tool="", devices=(), topology=None, boards=(), ecc=())
    return having(facts, "hccn", conf=None, tool="", devices=())


@pytest.mark.parametrize("identity", MINE)
def test_a_machine_without_ascend_has_no_complaint(identity: str) -> None:
    for finding in run(identity, laptop()):
        assert finding.level <= Level.SKIPPED, finding


def test_a_machine_without_ascend_says_so() -> None:
    for identity in ("driver-installed", "npu-smi", "npu-free", "hccn-tool", "ports-free"):
        (finding,) = run(identity, laptop())
        assert "no Ascend device on this machine" in finding.title


def test_every_command_is_a_line_that_a_shell_can_read() -> None:
    bare = having(inside(a2()), "driver", nodes=(), libraries=())
    for finding in judge(Case(facts=bare, catalog=CATALOG), [CHECKS[name] for name in MINE]):
        for command in finding.remedy.commands if finding.remedy else ():
            assert shlex.split(command)
