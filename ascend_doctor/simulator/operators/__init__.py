"""Operators of the simulated NPU: what the device computes, computed on the host.

The stand-in CANN tree carries this package as `ascend_simulator`; `install()` runs once in each
process, when torch_npu has been imported. The interpreter is the one under examination.
"""

from __future__ import annotations

_installed = []


def install() -> None:
    """Register a kernel for every operator that the simulated NPU can compute."""
    if not _installed:
        from .registration import register

        _installed.extend(register())
