"""The device files of the driver: /dev/davinciN, the managers, and the UB folders of 950."""

from __future__ import annotations

import re

import msgspec

from ascend_doctor.facts import DeviceNode
from ascend_doctor.system import Machine, is_directory, matches, read_or_none

_NUMBERED = re.compile(r"(v?)davinci([0-9]{1,6})$")

# Shared nodes, then those of the
# 310B class, then folders of nodes on 950 hosts with UB.
_MANAGERS = (
    "davinci_manager",
    "davinci_manager_docker",
    "devmm_svm",
    "hisi_hdc",
    "dvpp_cmdlist",
    "svm0",
    "ts_aisle",
)
_FOLDERS = ("uburma", "ummu")


def device_nodes(machine: Machine) -> tuple[DeviceNode, ...]:
    """Devices by number, then virtual devices, then managers.

    Raises PermissionError where /dev may not be listed.
    """
    try:
        names = machine.names("/dev")
    except FileNotFoundError:
        return ()
    users, groups = names_by_id(machine, "/etc/passwd"), names_by_id(machine, "/etc/group")
    found = []
    for name in names:
        numbered = _NUMBERED.match(name)
        if numbered:
            kind = "vdevice" if numbered.group(1) else "device"
            found.append(_node(machine, f"/dev/{name}", kind, int(numbered.group(2))))
        elif name in _MANAGERS:
            found.append(_node(machine, f"/dev/{name}", "manager"))
        elif name in _FOLDERS and is_directory(machine, f"/dev/{name}"):
            paths = matches(machine, f"/dev/{name}", "*")
            found += [_node(machine, path, "manager") for path in paths]
    order = {"device": 0, "vdevice": 1, "manager": 2}
    found.sort(key=lambda node: (order[node.kind], node.number or 0, node.path))
    return tuple(_named(node, users, groups) for node in found)


def names_by_id(machine: Machine, path: str) -> dict[int, str]:
    """Names of /etc/passwd or /etc/group by number; empty where it cannot be read."""
    return parse_accounts(read_or_none(machine, path) or "")


def parse_accounts(text: str) -> dict[int, str]:
    """``name:x:number:...`` lines; the first name of a number counts."""
    found: dict[int, str] = {}
    for line in text.splitlines():
        name, _, number, *_ = [*line.split(":"), "", "", ""]
        if name and re.fullmatch("[0-9]{1,10}", number):
            found.setdefault(int(number), name)
    return found


def _node(machine: Machine, path: str, kind: str, number: int | None = None) -> DeviceNode:
    try:
        status = machine.status(path)
    except OSError:
        return DeviceNode(path=path, kind=kind, number=number, is_device=False)
    return DeviceNode(
        path=path,
        kind=kind,
        number=number,
        uid=status.uid,
        gid=status.gid,
        mode=status.mode,
        is_device=status.kind == "char",
        readable=status.readable,
        writable=status.writable,
    )


def _named(node: DeviceNode, users: dict[int, str], groups: dict[int, str]) -> DeviceNode:
    owner = None if node.uid is None else users.get(node.uid)
    group = None if node.gid is None else groups.get(node.gid)
    return msgspec.structs.replace(node, owner=owner, group=group)
