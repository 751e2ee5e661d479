"""Healthy servers as values: eight A2 cards, or eight A3 cards of two devices."""

import functools
from typing import Any

import msgspec

from ascend_doctor.collect.snapshot import take
from ascend_doctor.facts import (
    Container,
    DeviceNode,
    HccnDevice,
    Interface,
    Npu,
    NpuBoard,
    NpuEcc,
    Snapshot,
    Topology,
)
from ascend_doctor.findings import Finding
from ascend_doctor.judging.judge import Case, judge
from tests.checks.machine import CATALOG, CHECKS, having
from tests.level0.machine import machine
from tests.present import present

GIB = 1 << 30
MANAGERS = ("/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc")
LIBRARIES = ("libascend_hal.so", "libdcmi.so", "libc_sec.so")
CARDS = 8
INTERFACES = (
    Interface(name="docker0", addresses=("172.17.0.1",), up=True),
    Interface(name="eth0", addresses=("192.0.2.200", "2001:db8::1"), up=True),
    Interface(name="eth9", up=False),
    Interface(name="lo", addresses=("127.0.0.1",), up=True),
)


def node(path: str, number: int | None = None, **fields: Any) -> DeviceNode:
    plain = DeviceNode(
        path=path,
        kind="manager" if number is None else "device",
        number=number,
        uid=1000,
        gid=1000,
        owner="HwHiAiUser",
        group="HwHiAiUser",
        mode="0660",
        readable=True,
        writable=True,
    )
    return msgspec.structs.replace(plain, **fields)


def nodes(count: int) -> tuple[DeviceNode, ...]:
    numbered = (node(f"/dev/davinci{number}", number) for number in range(count))
    return (*numbered, *(node(path) for path in MANAGERS))


def npu(number: int, *, a3: bool = False, **fields: Any) -> Npu:
    npus = present(recorded("healthy-a3" if a3 else "healthy-a2").npus)
    return msgspec.structs.replace(npus.devices[number], **fields)


def ecc(number: int, *, a3: bool = False, **counters: int) -> NpuEcc:
    """Counter names have underscores for blanks."""
    counts = {name.replace("_", " "): count for name, count in counters.items()}
    return NpuEcc(
        npu_id=number // 2 if a3 else number,
        chip_id=number % 2 if a3 else 0,
        counters={"HBM Double Bit Error Count": 0, **counts},
    )


def boards(**fields: Any) -> tuple[NpuBoard, ...]:
    plain = NpuBoard(
        npu_id=0, compatibility="OK", driver_version="25.2.0", firmware_version="7.7.0.6.236"
    )
    return tuple(
        msgspec.structs.replace(plain, **{"npu_id": card, **fields}) for card in range(CARDS)
    )


def port(number: int, **fields: Any) -> HccnDevice:
    hccn = present(recorded("healthy-a2" if number < CARDS else "healthy-a3").hccn)
    return msgspec.structs.replace(hccn.devices[number], **fields)


def conf(devices: tuple[HccnDevice, ...]) -> dict[str, str]:
    addresses = {f"address_{device.device}": device.address or "" for device in devices}
    return addresses | {f"netmask_{device.device}": device.netmask or "" for device in devices}


def mesh(count: int, code: str = "HCCS", prefix: str = "NPU") -> Topology:
    names = tuple(f"{prefix}{number}" for number in range(count))
    links = tuple(tuple("X" if a == b else code for b in range(count)) for a in range(count))
    return Topology(names=names, links=links)


@functools.cache
def recorded(name: str) -> Snapshot:
    return take(machine(name), CATALOG)


def a2(**environment: str) -> Snapshot:
    """A healthy host: a recorded one of a user of the driver's group, with a known firmware."""
    return _of_user("healthy-a2", environment)


def a3(**environment: str) -> Snapshot:
    """Eight cards of two devices, one PCI function a card."""
    return _of_user("healthy-a3", environment)


def _of_user(name: str, environment: dict[str, str]) -> Snapshot:
    facts = having(recorded(name), "host", uid=1001, gids=(1000, 1001), shm_size=64 * GIB)
    facts = having(facts, "environment", variables=environment, interfaces=INTERFACES)
    npus = present(facts.npus)
    facts = having(facts, "npus", driver_version="25.2.0", boards=boards() if npus.boards else ())
    named = tuple(
        msgspec.structs.replace(device, owner="HwHiAiUser", group="HwHiAiUser")
        for device in present(facts.driver).nodes
    )
    return having(
        facts,
        "driver",
        version="25.2.0",
        compatible_firmware="[7.0.0,7.9.99]",
        firmware_version="7.7.0.1.231",
        compatible_drivers="[24.1.rc1,24.1.rc1.],[25.0.rc1,25.9.9]",
        nodes=named,
    )


def inside(facts: Snapshot, kind: str = "docker", **fields: Any) -> Snapshot:
    return having(
        facts, "host", container=Container(**{"kind": kind, "privileged": False, **fields})
    )


def ask(identity: str, facts: Snapshot, nproc: int | None = None) -> tuple[Finding, ...]:
    case = Case(facts=facts, catalog=CATALOG, nproc=nproc)
    return judge(case, [CHECKS[identity]])


def commands(finding: Finding) -> str:
    remedy = present(finding.remedy)
    return "\n".join((remedy.summary, *remedy.commands))
