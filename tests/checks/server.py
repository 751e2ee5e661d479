"""Healthy servers as values: eight A2 cards, or eight A3 cards of two devices."""

from typing import Any

import msgspec

from ascend_doctor.facts import (
    BuildLocks,
    Container,
    DeviceNode,
    Driver,
    Environment,
    Hccn,
    HccnDevice,
    Holders,
    Host,
    InstallInfo,
    Interface,
    Library,
    Limit,
    Npu,
    NpuBoard,
    NpuEcc,
    Npus,
    PciFunction,
    RankTable,
    Snapshot,
    Topology,
    Usage,
)
from ascend_doctor.findings import Finding
from ascend_doctor.judging.judge import Case, judge
from tests.checks.machine import CATALOG, CHECKS, having
from tests.present import present

GIB = 1 << 30
MANAGERS = ("/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc")
LIBRARIES = ("libascend_hal.so", "libdcmi.so", "libc_sec.so")
CARDS = 8


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
    plain = Npu(
        npu_id=number // 2 if a3 else number,
        chip_id=number % 2 if a3 else 0,
        device=number,
        name="Ascend910" if a3 else "910B3",
        health="OK",
        hbm=Usage(used=3100, total=65536),
        utilisation=0,
        temperature_c=40,
    )
    return msgspec.structs.replace(plain, **fields)


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
    plain = HccnDevice(
        device=number,
        address=f"192.0.2.{10 + number}",
        netmask="255.255.255.0",
        gateway="192.0.2.1",
        link="UP",
        health="Success",
        detect="192.0.2.1",
        tls=False,
        link_ups=1,
        link_changes=("UP",),
    )
    return msgspec.structs.replace(plain, **fields)


def conf(devices: tuple[HccnDevice, ...]) -> dict[str, str]:
    addresses = {f"address_{device.device}": device.address or "" for device in devices}
    return addresses | {f"netmask_{device.device}": device.netmask or "" for device in devices}


def mesh(count: int, code: str = "HCCS", prefix: str = "NPU") -> Topology:
    names = tuple(f"{prefix}{number}" for number in range(count))
    links = tuple(tuple("X" if a == b else code for b in range(count)) for a in range(count))
    return Topology(names=names, links=links)


def a2(**environment: str) -> Snapshot:
    """A healthy host."""
    ports = tuple(port(number) for number in range(CARDS))
    return Snapshot(
        host=Host(
            arch="aarch64",
            uid=1001,
            gids=(1000, 1001),
            shm_size=64 * GIB,
            shm_free=60 * GIB,
            limits=(
                Limit(name="nofile", soft=65536, hard=65536),
                Limit(name="memlock", soft=-1, hard=-1),
            ),
        ),
        driver=Driver(
            path="/usr/local/Ascend/driver",
            version="25.2.0",
            compatible_firmware="[7.0.0,7.9.99]",
            firmware_version="7.7.0.1.231",
            compatible_drivers="[24.1.rc1,24.1.rc1.],[25.0.rc1,25.9.9]",
            install_info=InstallInfo(driver_status="complete"),
            nodes=nodes(CARDS),
            libraries=tuple(
                Library(name=library, path=f"/driver/lib64/{library}") for library in LIBRARIES
            ),
            modules=("drv_devmm_host",),
            pci=tuple(
                PciFunction(address=f"0000:{card:02x}:00.0", device="0xd802")
                for card in range(CARDS)
            ),
        ),
        npus=Npus(
            tool="/usr/local/bin/npu-smi",
            driver_version="25.2.0",
            layout="a2",
            devices=tuple(npu(number) for number in range(CARDS)),
            processes=(),
            listed=CARDS,
            ecc=tuple(ecc(card) for card in range(CARDS)),
            boards=boards(),
            topology=mesh(CARDS),
        ),
        environment=Environment(
            variables=dict(environment),
            interfaces=(
                Interface(name="docker0", addresses=("172.17.0.1",), up=True),
                Interface(name="eth0", addresses=("192.0.2.200", "2001:db8::1"), up=True),
                Interface(name="eth9", up=False),
                Interface(name="lo", addresses=("127.0.0.1",), up=True),
            ),
            listening=(22,),
            local_port_range=(32768, 60999),
            reserved_ports="60000-60031",
        ),
        hccn=Hccn(conf=conf(ports), tool="/usr/local/Ascend/driver/tools/hccn_tool", devices=ports),
        holders=Holders(),
        build_locks=BuildLocks(),
        rank_table=RankTable(),
    )


def a3(**environment: str) -> Snapshot:
    """Eight cards of two devices, one PCI function a card."""
    facts = a2(**environment)
    count = 2 * CARDS
    facts = having(
        facts,
        "driver",
        nodes=nodes(count),
        pci=tuple(
            PciFunction(address=str(card), device="0xd803", subsystem_device="0x0110")
            for card in range(CARDS)
        ),
    )
    links = tuple(
        tuple("X" if a == b else "SIO" if a // 2 == b // 2 else "HCCS_SW" for b in range(count))
        for a in range(count)
    )
    names = tuple(f"Phy-ID{number}" for number in range(count))
    ports = tuple(port(number) for number in range(count))
    facts = having(facts, "hccn", conf=conf(ports), devices=ports)
    return having(
        facts,
        "npus",
        ecc=tuple(ecc(index, a3=True) for index in range(count)),
        layout="a3",
        devices=tuple(npu(number, a3=True) for number in range(count)),
        topology=Topology(names=names, links=links),
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
