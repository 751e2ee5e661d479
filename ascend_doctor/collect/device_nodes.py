"""The device files of the driver: /dev/davinciN, the managers, and the UB folders of 950."""

import grp
import pwd
import re

import msgspec

from ascend_doctor.facts import DeviceNode
from ascend_doctor.machine.live import Machine, NotRecorded, is_directory, matches

_NUMBERED = re.compile(r"(v?)davinci([0-9]{1,6})$")

# Shared nodes, then those of the 310B class, then folders of nodes on 950 hosts with UB.
_MANAGERS = (
    *("davinci_manager", "davinci_manager_docker", "devmm_svm", "hisi_hdc", "dvpp_cmdlist", "svm0"),
    "ts_aisle",
)
_FOLDERS = ("uburma", "ummu")


def device_nodes(machine: Machine) -> tuple[DeviceNode, ...]:
    """Devices by number, virtual devices, managers. Raises PermissionError for unlistable /dev."""
    try:
        names = machine.names("/dev")
    except FileNotFoundError:
        return ()
    nodes = []
    for name in names:
        numbered = _NUMBERED.match(name)
        if numbered:
            kind = "vdevice" if numbered.group(1) else "device"
            nodes.append(_node(machine, f"/dev/{name}", kind, int(numbered.group(2))))
        elif name in _MANAGERS:
            nodes.append(_node(machine, f"/dev/{name}", "manager"))
        elif name in _FOLDERS and is_directory(machine, f"/dev/{name}"):
            paths = matches(machine, f"/dev/{name}", "*")
            nodes += [_node(machine, path, "manager") for path in paths]
    order = {"device": 0, "vdevice": 1, "manager": 2}
    nodes.sort(key=lambda node: (order[node.kind], node.number or 0, node.path))
    return tuple(_node_of(machine, node) for node in nodes)


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


def _node_of(machine: Machine, node: DeviceNode) -> DeviceNode:
    return msgspec.structs.replace(
        node,
        owner=_name(machine, "user-name", node.uid),
        group=_name(machine, "group-name", node.gid),
    )


def _name(machine: Machine, kind: str, number: int | None) -> str | None:
    if number is None:
        return None

    def ask() -> str | None:
        try:
            if kind == "user-name":
                return pwd.getpwuid(number).pw_name
            return grp.getgrgid(number).gr_name
        except KeyError:
            return None

    try:
        answer = machine.value(f"{kind}:{number}", ask)
    except NotRecorded:
        return None
    return answer if isinstance(answer, str) else None
