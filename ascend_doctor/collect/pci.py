"""The NPUs on the PCI bus."""

import os

from ascend_doctor.facts import PciFunction
from ascend_doctor.machine.live import Machine, read_or_none

_FOLDER = "/sys/bus/pci/devices"
_VENDOR = "0x19e5"
# "Processing accelerators"; this vendor's network cards and host bridges have other classes.
_ACCELERATOR = "0x12"


def pci_functions(machine: Machine) -> tuple[PciFunction, ...] | None:
    """NPUs of sysfs; None without it."""
    try:
        addresses = machine.names(_FOLDER)
    except OSError:
        return None
    functions = []
    for address in addresses:
        folder = f"{_FOLDER}/{address}"
        if _id(machine, f"{folder}/vendor") != _VENDOR:
            continue
        if _id(machine, f"{folder}/class").startswith(_ACCELERATOR):
            functions.append(
                PciFunction(
                    address=address,
                    device=_id(machine, f"{folder}/device"),
                    subsystem_device=_id(machine, f"{folder}/subsystem_device"),
                    width=_id(machine, f"{folder}/current_link_width"),
                    driver=_driver(machine, f"{folder}/driver"),
                )
            )
    return tuple(functions)


def _driver(machine: Machine, path: str) -> str:
    try:
        return os.path.basename(machine.status(path).target)
    except OSError:
        return ""


def _id(machine: Machine, path: str) -> str:
    return (read_or_none(machine, path) or "").strip().lower()
