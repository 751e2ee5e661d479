"""Rows of the driver's files, of listings of a host, and of Docker's files."""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory

from ascend_doctor.collect.device_nodes import device_nodes
from ascend_doctor.collect.driver import (
    driver,
    parse_component_versions,
    parse_docker_daemon,
    parse_install_info,
    parse_mounts,
)
from ascend_doctor.collect.pci import parse_lspci
from ascend_doctor.collect.vendor_text import parse_assignments

from .replayed import replayed
from .sample_facts import Facts, Rows, plain, value


def nodes_of_listing(text: str) -> Facts:
    """The device files of a machine whose /dev is as ``ls`` printed it."""
    statuses = {}
    for line in text.splitlines():
        owned = re.match(r"crw-rw---- 1 HwHiAiUser HwHiAiUser .* (/dev/\S+)$", line)
        status = {"mode": "0660", "uid": 1000, "gid": 1000} if owned else {}
        for path in [owned.group(1)] if owned else line.split():
            full = path if path.startswith("/") else f"/dev/{path}"
            statuses[full] = {"kind": "char", **status}
    with TemporaryDirectory() as name:
        names = dict.fromkeys(("user-name:1000", "group-name:1000"), "HwHiAiUser")
        nodes = device_nodes(replayed(Path(name), nodes=statuses, values=names))
    return {
        "devices": [node.number for node in nodes if node.kind == "device"],
        "managers": [node.path for node in nodes if node.kind == "manager"],
        "owners": sorted({(node.owner, node.group, node.mode) for node in nodes}, key=str),
    }


def libraries_of_tree(text: str) -> Facts:
    """The libraries that a loader with the driver's folders finds in a ``tree`` listing."""
    path = ["/usr/local/Ascend"]
    nodes = {}
    for line in text.splitlines():
        branch = re.match(r"((?:[| ] {3})*)(?:\|-- |`-- )?(\S+)$", line)
        if branch is None:
            continue
        depth = 0 if line == "driver" else 1 + len(branch.group(1)) // 4
        path[depth + 1 :] = [branch.group(2)]
        nodes["/".join(path)] = {"kind": "file" if "." in path[-1] else "directory"}
    root = "/usr/local/Ascend/driver/lib64"
    env = {"LD_LIBRARY_PATH": f"{root}:{root}/common:{root}/driver"}
    with TemporaryDirectory() as name:
        facts = driver(replayed(Path(name), nodes=nodes, env=env))
    return {
        "path": facts.path,
        "version": facts.version,
        "libraries": {library.name: library.path for library in facts.libraries},
    }


ROWS: Rows = {
    "driver/driver-version.info-23.0.7.txt": (
        parse_assignments,
        {
            "Version": "23.0.7",
            "package_version": "23.0.7",
            "compatible_version_fw": "[7.0.0,7.1.99]",
            "ascendhal_version": "7.35.19",
        },
    ),
    "driver/driver-version.info-24.1.rc1.txt": (
        lambda text: {
            **parse_assignments(text),
            "none": parse_assignments(text).get("package_version"),
        },
        {"Version": "24.1.rc1", "compatible_version_fw": "[7.0.0,7.2.99]", "none": None},
    ),
    "driver/firmware-version.info-7.1.txt": (
        parse_assignments,
        {
            "Version": "7.1.0.11.220",
            "compatible_version_drv": "[23.0.rc3,23.0.rc3.],[23.0.0,23.0.0.]",
        },
    ),
    "driver/ascend_install.info.txt": (
        plain(parse_install_info),
        {
            "driver_status": "complete",
            "user": "HwHiAiUser",
            "group": "HwHiAiUser",
            "driver_path": "/usr/local/Ascend",
            "for_all": False,
        },
    ),
    "driver/upgrade-tool-firmware-versions.txt": (
        lambda text: {
            "versions": {version for _, version in parse_component_versions(text)},
            "devices": {device for device, _ in parse_component_versions(text)},
            "count": len(parse_component_versions(text)),
        },
        {"versions": {"7.1.0.7.220"}, "devices": {0, 7}, "count": 8},
    ),
    "driver/tree-driver-in-container-8.1.RC1.txt": (
        libraries_of_tree,
        {
            "path": "/usr/local/Ascend/driver",
            "version": None,
            "libraries": {
                "libascend_hal.so": "/usr/local/Ascend/driver/lib64/driver/libascend_hal.so",
                "libdcmi.so": "/usr/local/Ascend/driver/lib64/driver/libdcmi.so",
                "libdrvdsmi_host.so": "/usr/local/Ascend/driver/lib64/driver/libdrvdsmi_host.so",
                "libc_sec.so": "/usr/local/Ascend/driver/lib64/common/libc_sec.so",
            },
        },
    ),
    "system/lspci-910-8cards.txt": (
        lambda text: {
            "count": len(parse_lspci(text)),
            "devices": {pci_function.device for pci_function in parse_lspci(text)},
        },
        {"count": 8, "devices": {"0xd801"}},
    ),
    "system/lspci-910-one-card-lost.txt": (
        lambda text: {"addresses": [pci_function.address for pci_function in parse_lspci(text)]},
        {
            "addresses": [
                "3d:00.0",
                "3e:00.0",
                "60:00.0",
                "b1:00.0",
                "b2:00.0",
                "da:00.0",
                "db:00.0",
            ]
        },
    ),
    "system/ls-dev-a2-8cards.txt": (
        nodes_of_listing,
        {"devices": list(range(8)), "managers": ["/dev/davinci_manager"]},
    ),
    "system/ls-l-dev-manager-a2.txt": (
        nodes_of_listing,
        {
            "devices": [],
            "managers": ["/dev/devmm_svm", "/dev/hisi_hdc"],
            "owners": [("HwHiAiUser", "HwHiAiUser", "0660")],
        },
    ),
    "docker/ls-inside-container-ascend-runtime.txt": (
        nodes_of_listing,
        {"devices": [0], "managers": ["/dev/davinci_manager", "/dev/devmm_svm"]},
    ),
    "docker/daemon.json-ascend-runtime.txt": (
        plain(parse_docker_daemon),
        {
            "path": "/usr/local/Ascend/Ascend-Docker-Runtime/ascend-docker-runtime",
            "default": True,
        },
    ),
    "docker/base.list-a2-a3.txt": (
        value(parse_mounts),
        {
            "value": (
                "/usr/local/Ascend/driver/lib64",
                "/usr/local/Ascend/driver/include",
                "/usr/local/dcmi",
                "/usr/local/bin/npu-smi",
                "/var/queue_schedule",
            )
        },
    ),
}
