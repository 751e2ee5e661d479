"""A torch_npu that finds no NPU, for the run on the CPU.

The real one wants CANN to be loaded, sees the NPUs of the machine, and where there are none no
optimizer steps. Libraries as accelerate and transformers import it wherever it is installed, and
take an NPU where it counts one.
"""

from __future__ import annotations

import importlib.machinery
import sys
import types
from typing import Any

import torch

_NAME = "torch_npu"


class _Absent(types.ModuleType):
    """Questions about NPUs have an answer; uses of one fail with the reason."""

    def is_available(self) -> bool:
        return False

    def is_initialized(self) -> bool:
        return False

    def device_count(self) -> int:
        return 0

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"{self.__name__}.{name}: this is the run on the CPU, without an NPU; "
            "ASCEND_DOCTOR_DEVICE is cpu"
        )


def hide_npus() -> None:
    """Replace the real package unless it is imported already."""
    if _NAME in sys.modules:
        return
    package, npu = _Absent(_NAME), _Absent("torch.npu")
    # importlib.util.find_spec asks for it.
    package.__spec__ = importlib.machinery.ModuleSpec(_NAME, None)
    package.npu = npu  # type: ignore[attr-defined]
    torch.npu = npu
    sys.modules[_NAME] = package
