"""What parsers get of the driver's files, of listings of a host, and of Docker's files."""

import re
from pathlib import Path
from tempfile import TemporaryDirectory

from ascend_doctor.collect.device_nodes import device_nodes
from ascend_doctor.collect.driver import (
    driver,
    parse_docker_daemon,
    parse_install_info,
    parse_mounts,
)
from ascend_doctor.collect.vendor_text import parse_assignments

from .replayed import replay
from .sample_facts import Facts, Readers, plain, value


def nodes_of_listing(text: str) -> Facts:
    """/dev as ``ls`` printed it."""
    statuses = {}
    for line in text.splitlines():
        owned = re.match(r"crw-rw---- 1 HwHiAiUser HwHiAiUser .* (/dev/\S+)$", line)
        status = {"mode": "0660", "uid": 1000, "gid": 1000} if owned else {}
        for path in [owned.group(1)] if owned else line.split():
            full = path if path.startswith("/") else f"/dev/{path}"
            statuses[full] = {"kind": "char", **status}
    with TemporaryDirectory() as name:
        names = dict.fromkeys(("user-name:1000", "group-name:1000"), "HwHiAiUser")
        nodes = device_nodes(replay(Path(name), nodes=statuses, values=names))
    return {
        "devices": [node.number for node in nodes if node.kind == "device"],
        "managers": [node.path for node in nodes if node.kind == "manager"],
        "owners": sorted({(node.owner, node.group, node.mode) for node in nodes}, key=str),
    }


def libraries_of_tree(text: str) -> Facts:
    """Libraries that a loader with the driver's folders finds in a ``tree`` listing."""
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
        facts = driver(replay(Path(name), nodes=nodes, env=env))
    return {
        "path": facts.path,
        "version": facts.version,
        "libraries": {library.name: library.path for library in facts.libraries},
    }


READERS: Readers = (
    ("driver/ascend_install.info*", plain(parse_install_info)),
    ("driver/tree-*", libraries_of_tree),
    ("driver/*", lambda text: {"package_version": None, **parse_assignments(text)}),
    ("system/ls-* docker/ls-*", nodes_of_listing),
    ("docker/daemon.json-*", plain(parse_docker_daemon)),
    ("docker/base.list-*", value(parse_mounts)),
)
