"""How much longer than on a host of NPUs everything may take: one factor for all deadlines."""

import os
from pathlib import Path
from typing import NamedTuple

VARIABLE = "ASCEND_DOCTOR_PATIENCE"
# Imports of torch and Megatron-LM took 10 to 20 times as long under qemu-user (2026-11-22).
EMULATED = 20.0
# More is a slip: it would turn half a minute into eight hours.
MOST = 1000.0
# qemu-user answers for /proc/self/exe, but passes this name to the kernel.
_PROGRAM = Path("/proc/thread-self/exe")
# e_machine of an ELF header; both processors write the low byte first (elf.h).
_MACHINES = {62: "x86_64", 183: "aarch64"}
_E_MACHINE = slice(18, 20)


class Patience(NamedTuple):
    """The factor, and why it is not 1."""

    factor: float = 1.0
    because: str = ""


def patience() -> Patience:
    """The requested patience, else by whether this process's processor is emulated."""
    try:
        asked = float(os.environ.get(VARIABLE, ""))
    except ValueError:
        asked = 0.0
    if 1 <= asked <= MOST:
        return Patience(asked, "as asked for" if asked > 1 else "")
    beneath = _beneath()
    if beneath in {"", os.uname().machine}:
        return Patience()
    return Patience(EMULATED, f"{os.uname().machine} is emulated on {beneath}")


def _beneath() -> str:
    try:
        with _PROGRAM.open("rb") as file:
            header = file.read(_E_MACHINE.stop)
    except OSError:
        return ""
    return _MACHINES.get(int.from_bytes(header[_E_MACHINE], "little"), "")
