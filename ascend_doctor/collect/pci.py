"""The NPUs on the PCI bus."""

import re

from ascend_doctor.facts import PciFunction
from ascend_doctor.machine.live import Machine, ProgramMissing, read_or_none
from ascend_doctor.patterns import defer

_FOLDER = "/sys/bus/pci/devices"
_VENDOR = "0x19e5"
# "Processing accelerators"; this vendor's network cards and host bridges have other classes.
_ACCELERATOR = "0x12"
_DEADLINE = 10.0
_LSPCI = defer(
    r"^((?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]) Processing accelerators: .*"
    r"\bDevice ([0-9a-f]{4})\b",
    re.MULTILINE,
)


def pci_functions(machine: Machine) -> tuple[PciFunction, ...] | None:
    """NPUs of sysfs, else of lspci; None if neither is available."""
    try:
        addresses = machine.names(_FOLDER)
    except OSError:
        return _from_lspci(machine)
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
                )
            )
    return tuple(functions)


def parse_lspci(text: str) -> tuple[PciFunction, ...]:
    """Lines of accelerators; lspci has no names for these devices and prints "Device d802"."""
    return tuple(
        PciFunction(address=address, device=f"0x{device}")
        for address, device in _LSPCI.findall(text)
    )


def _from_lspci(machine: Machine) -> tuple[PciFunction, ...] | None:
    try:
        done = machine.run(["lspci", "-D", "-d", "19e5:"], deadline=_DEADLINE, name="lspci")
    except ProgramMissing:
        return None
    return None if done.timed_out or done.exit_code else parse_lspci(done.stdout)


def _id(machine: Machine, path: str) -> str:
    return (read_or_none(machine, path) or "").strip().lower()
