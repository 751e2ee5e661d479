"""CANN, NNAL and driver of a machine, as far as the variables of a stack depend on them."""

import os

from ascend_doctor.collect.cann_tree import CannTree, nnals, toolkits
from ascend_doctor.collect.loader import find, places
from ascend_doctor.collect.vendor_text import parse_assignments
from ascend_doctor.machine.live import Machine, exists, is_directory, matches, read_or_none
from ascend_doctor.provision.cann_env import CannHost, Install, torch_abi

_HAL = "libascend_hal.so"


def cann_host(machine: Machine, environment: str | None, version: str | None) -> CannHost:
    """A version's toolkit, else that in use. ``environment``: Python's folder, None: the active."""
    trees, libraries = toolkits(machine), nnals(machine)
    versions = {tree: _version(machine, tree) for tree in trees}
    right = (tree for tree in trees if version and versions[tree] == version)
    tree = next(right, None) or next(iter(trees), None)
    active = machine.env.get("VIRTUAL_ENV") or machine.env.get("CONDA_PREFIX")
    nnal = next(
        (library for library in libraries if exists(machine, f"{library.root}/version.info")), None
    )
    return CannHost(
        machine=machine,
        cann=_install(machine, tree) if tree else None,
        version=versions[tree] if tree else None,
        nnal=_install(machine, nnal) if nnal else None,
        others=tuple(_install(machine, root_) for root_ in (*trees, *libraries) if root_ != tree),
        driver=_driver(machine),
        arch=os.uname().machine,
        abi=torch_abi(machine, environment or active),
    )


def _install(machine: Machine, tree: CannTree) -> Install:
    new = exists(machine, f"{tree.root}/set_env.sh")
    return Install(tree.root, tree.spellings, "new" if new else "old")


def _version(machine: Machine, tree: CannTree) -> str | None:
    for folder in matches(machine, tree.root, "*-linux"):
        or_none = read_or_none(machine, f"{folder}/ascend_toolkit_install.info")
        if or_none is not None:
            return parse_assignments(or_none).get("version")
    return None


def _driver(machine: Machine) -> tuple[str, ...] | None:
    """Driver folders as in 9.1.0's set_env.sh; () if the loader has them, None without a driver."""
    info = parse_assignments(read_or_none(machine, "/etc/ascend_install.info") or "")
    root = info.get("Driver_Install_Path_Param") or "/usr/local/Ascend"
    folders = [f"{root}/driver/{name}" for name in ("lib64", "lib64/common", "lib64/driver")]
    if any(exists(machine, f"{folder}/{_HAL}") for folder in folders):
        return tuple(folder for folder in folders if is_directory(machine, folder))
    configured = [spot for spot in places(machine) if spot[1] != "LD_LIBRARY_PATH"]
    return () if find(machine, _HAL, configured) else None
