"""The simulated NPU: the real torch_npu runs unchanged on a stand-in CANN, on any Linux machine."""

from __future__ import annotations

from ascend_doctor.simulator.tree import CANN, Tree, build

__all__ = ["CANN", "Tree", "build"]
