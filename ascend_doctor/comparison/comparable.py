"""What two machines are compared by: one flat table of texts, in the order of what matters."""

from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from ascend_doctor.facts import (
    Cann,
    Driver,
    Environment,
    Hccn,
    Host,
    ImportPath,
    Npus,
    Python,
    Snapshot,
)

DEVICE_FILES = "device files"
ABSENT = "(absent)"


class Group(Enum):
    """Ordered: the first ones explain a failure most often."""

    STACK = "stack"
    DEVICES = "devices"
    NETWORK = "network"
    ENVIRONMENT = "environment"
    HOST = "host"
    PACKAGES = "packages"

    @property
    def rank(self) -> int:
        return _ORDER[self]


_ORDER = {group: position for position, group in enumerate(Group)}


class ComparedSetting(NamedTuple):
    """``listed``: an entry of a list, absent rather than unknown on a machine without it."""

    group: Group
    name: str
    section: str
    listed: bool = False


def settings(facts: Snapshot, stack: frozenset[str]) -> dict[ComparedSetting, str]:
    """Settings, not what healthy machines differ in: names, addresses, time, load, free memory."""
    settings_: dict[ComparedSetting, str] = {}
    for section, rows in (
        ("driver", _driver(facts.driver)),
        ("npus", _npus(facts.npus)),
        ("cann", _cann(facts.cann)),
        ("python", _python(facts.python, stack)),
        ("import_path", _import_path(facts.import_path)),
        ("hccn", _hccn(facts.hccn)),
        ("environment", _environment(facts.environment)),
        ("host", _host(facts.host)),
    ):
        for group, name, value, listed in rows:
            if value is not None:
                settings_[ComparedSetting(group, name, section, listed)] = str(value)
    return settings_


def group_settings(facts: Snapshot, stack: frozenset[str]) -> dict[Group, list[tuple[str, str]]]:
    all_settings = settings(facts, stack)
    return {
        group: [
            (setting.name, value)
            for setting, value in all_settings.items()
            if setting.group is group
        ]
        for group in Group
    }


Row = tuple[Group, str, object, bool]


def _driver(driver: Driver | None) -> Iterator[Row]:
    if driver is None:
        return
    yield Group.STACK, "driver", driver.version, False
    yield Group.STACK, "driver package", driver.package_version, False
    yield Group.STACK, "firmware", driver.firmware_version, False
    yield Group.DEVICES, DEVICE_FILES, len(driver.devices), False


def _npus(npus: Npus | None) -> Iterator[Row]:
    if npus is None:
        return
    yield Group.STACK, "driver by npu-smi", npus.driver_version, False
    yield Group.DEVICES, "npu-smi", npus.tool_version, False
    if npus.devices:
        names = sorted({device.name for device in npus.devices})
        yield Group.DEVICES, "NPUs", len(npus.devices), False
        yield Group.DEVICES, "chip", ", ".join(names), False
        totals = sorted({device.hbm.total for device in npus.devices if device.hbm})
        yield Group.DEVICES, "HBM", ", ".join(map(str, totals)) or None, False


def _cann(cann: Cann | None) -> Iterator[Row]:
    if cann is None:
        return
    used = cann.in_use
    yield Group.STACK, "CANN", used.version if used else ABSENT, False
    for component in used.components if used else ():
        yield Group.STACK, f"CANN {component.name}", component.version, True
    if used:
        yield Group.STACK, "kernels", ", ".join(sorted(used.kernels)), False
        yield Group.STACK, "operator packages", ", ".join(sorted(used.ops_packages)), False
    yield Group.STACK, "NNAL", ", ".join(str(nnal.version) for nnal in cann.nnal) or ABSENT, False


def _python(python: Python | None, stack: frozenset[str]) -> Iterator[Row]:
    if python is None:
        return
    yield Group.STACK, "Python", python.version, False
    for distribution in python.distributions:
        # Of two with one name only the first on the path is imported.
        if not distribution.shadowed:
            group = Group.STACK if distribution.name in stack else Group.PACKAGES
            text = (
                f"{distribution.version} at {distribution.commit}"
                if distribution.commit
                else distribution.version
            )
            yield group, distribution.name, text, True


def _import_path(path: ImportPath | None) -> Iterator[Row]:
    for name in path.names if path else ():
        for position, copy in enumerate(name.copies):
            state = copy.git
            label = name.name if not position else f"{name.name}, copy {position + 1}"
            if state is not None:
                dirty = " with changes" if state.dirty else ""
                yield Group.STACK, f"import {label}", f"{state.commit}{dirty}", True
            else:
                versions = ", ".join(f"{part} {version}" for part, version in copy.versions.items())
                yield Group.STACK, f"import {label}", versions or copy.kind, True


def _hccn(hccn: Hccn | None) -> Iterator[Row]:
    if hccn is None:
        return
    for device in hccn.devices:
        yield Group.NETWORK, f"netmask of NPU {device.device}", device.netmask, False
        yield Group.NETWORK, f"TLS of NPU {device.device}", device.tls, False
        yield Group.NETWORK, f"link of NPU {device.device}", device.link, False


def _environment(environment: Environment | None) -> Iterator[Row]:
    if environment is None:
        return
    for name, value in environment.variables.items():
        if name not in _OF_A_RANK:
            yield Group.ENVIRONMENT, name, value, True
    for name in environment.withheld:
        if name not in _OF_A_RANK:
            # Values of secrets are not kept: only presence is compared.
            yield Group.ENVIRONMENT, name, "(set)", True
    if environment.interfaces is not None:
        up = sorted(interface.name for interface in environment.interfaces if interface.up)
        yield Group.NETWORK, "interfaces", ", ".join(up), False


# What a launcher sets per node or rank (torch.distributed.run's documentation), and addresses.
_OF_A_RANK = frozenset(
    ("RANK", "LOCAL_RANK", "GROUP_RANK", "NODE_RANK", "ROLE_RANK", "HCCL_IF_IP", "SLURM_NODEID")
)


def _host(host: Host | None) -> Iterator[Row]:
    if host is None:
        return
    rows: dict[str, object] = {
        "operating system": f"{host.os_id} {host.os_version}",
        "processor": host.arch,
        "kernel": host.kernel,
        "glibc": host.glibc,
        "newest GLIBCXX": host.glibcxx,
        "CPUs": host.cpus,
        "NUMA nodes": host.numa_nodes,
        "memory": host.memory,
        "shared memory": host.shm_size,
        "container": host.container.kind if host.container else ABSENT,
        "transparent huge pages": host.transparent_hugepages,
        "CPU governors": ", ".join(host.cpu_governors) or None,
        "page size": host.page_size,
    }
    for name, value in rows.items():
        yield Group.HOST, name, value, False
    for limit in host.limits:
        yield Group.HOST, f"limit {limit.name}", limit.soft, False
