"""The C++ ABI that a torch was built with."""

from ascend_doctor.machine.live import Machine, read_or_none

_FILE = "torch/share/cmake/Torch/TorchConfig.cmake"


def read_torch_abi(machine: Machine, packages: str) -> int | None:
    """0 or 1 of the torch in a folder of packages; None where no file of it says so.

    Up to 2.7 a file of the wheel says it (pytorch/pytorch:cmake/TorchConfig.cmake.in).
    """
    text = read_or_none(machine, f"{packages}/{_FILE}") or ""
    return next((abi for abi in (0, 1) if f"_GLIBCXX_USE_CXX11_ABI={abi}" in text), None)
