import pytest

from ascend_doctor.collect.driver import driver
from ascend_doctor.collect.hccn import hccn
from ascend_doctor.collect.npus import npus
from ascend_doctor.errors import DataError
from ascend_doctor.simulator import FAULTS, KINDS, Tree, machine, parse

DEVICES = {"a2-8": 8, "a3-16": 16}


@pytest.mark.parametrize("name", KINDS)
def test_npu_smi_of_a_simulated_machine_reads_like_a_real_one(name: str) -> None:
    server = machine(name, memory=4 << 30)
    facts = npus(server.record())
    assert facts.error is None
    assert facts.complete
    assert len(facts.devices) == DEVICES[name]
    assert {npu.health for npu in facts.devices} == {"OK"}
    assert {npu.hbm.total for npu in facts.devices if npu.hbm} == {4096}
    assert facts.processes == ()
    assert facts.topology is not None
    assert len(facts.topology.names) == DEVICES[name]
    assert {count for npu_ecc in facts.ecc for count in npu_ecc.counters.values()} == {0}
    assert len(facts.ecc) == DEVICES[name]


@pytest.mark.parametrize("name", KINDS)
def test_driver_and_ports_of_a_simulated_machine(name: str) -> None:
    server = machine(name)
    facts = driver(server.record())
    assert [node.number for node in facts.devices] == list(range(DEVICES[name]))
    assert facts.version
    assert {library.name for library in facts.libraries if library.path} >= {"libascend_hal.so"}
    ports = hccn(server.record(), facts)
    assert ports.error is None
    assert [device.link for device in ports.devices] == ["UP"] * DEVICES[name]
    addresses = {device.address for device in ports.devices}
    assert len(addresses) == DEVICES[name]


def test_a_recording_says_that_it_is_simulated() -> None:
    assert "simulated" in machine("a2-8").record().recording.origin


def test_a_machine_with_another_chip(built: Tree) -> None:
    server = machine("a2-8", soc="Ascend910B4")
    assert {npu.name for npu in npus(server.record()).devices} == {"910B4"}
    env = server.environment(built, {}, [parse("hbm-ecc:device=2,step=4")])
    assert env["ASCEND_SIMULATOR_SOC"] == "Ascend910B4"
    assert env["ASCEND_SIMULATOR_DEVICES"] == "8"
    assert env["ASCEND_SIMULATOR_FAULTS"] == "hbm-ecc device=2 step=4"


@pytest.mark.parametrize(("name", "soc"), [("a9-1", None), ("a2-8", "Ascend1")])
def test_what_is_not_known_is_refused(name: str, soc: str | None) -> None:
    with pytest.raises(DataError):
        machine(name, soc=soc)


# ------------------------------------------------------------ faults


def test_fault_ids_are_unique_and_each_bites_somewhere() -> None:
    assert len({fault.id for fault in FAULTS}) == len(FAULTS)
    assert [fault.id for fault in FAULTS if not fault.kind and not fault.builds] == []


def test_a_fault_at_a_place() -> None:
    injection = parse("rank-hangs:rank=1,step=3")
    assert injection.line == "hccl-hangs step=3 rank=1"


def test_a_fault_everywhere() -> None:
    assert parse("hbm-oom").line == "hbm-oom free=16777216"


def test_a_fault_of_the_tree_has_no_line() -> None:
    injection = parse("cann-old")
    assert injection.line == ""
    assert injection.fault.builds["cann"] == "8.0.0"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no-such", "no such fault; there are .*rank-hangs"),
        ("hbm-ecc:rank", "not one of rank=N"),
        ("hbm-ecc:rank=-1", "not one of rank=N"),
        ("hbm-ecc:rank=1;x", "not one of rank=N"),
        ("hbm-ecc:node=1", "not one of rank=N"),
    ],
)
def test_a_fault_that_cannot_be_read_is_refused(text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        parse(text)
