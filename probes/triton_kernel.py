"""Compiles two small Triton kernels for one device and compares what they compute.

Run it alone: ``python probes/triton.py --device npu``. On NPUs the package is triton-ascend; an
upstream triton beside it, or over it, fails here. The numbers are whole, so results are exact.
There is no compiler for the CPU; there triton's own interpreter runs the kernels. Recorded:
``cases`` by kernel with ``differ``, the number of wrong elements, and ``version``.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
from typing import Any

import _cases
import _probe
from _probe import Probe

MANIFEST = {
    "order": 140,
    "level": 2,
    "seconds": 300,
    "seconds_cpu": 120,
    "usual": 0.1,
    "needs": ["device"],
    "does": "compiles two kernels and compares what they compute",
    "on_cpu": "by triton's interpreter, where triton is installed",
}

# A kernel is compiled at its first launch.
CASE_SECONDS = 180.0
# No multiple of the block: the last one is masked.
COUNT, BLOCK, FACTOR = 1000, 256, 3
ROWS, COLUMNS = 5, 100


def body(probe: Probe) -> None:
    """Kernels of triton, by value."""
    if importlib.util.find_spec("triton") is None:
        probe.skip("triton is not installed")
    with probe.stage("version"):
        probe.measure("distributions", distributions())
        probe.measure("interpreted", probe.device == "cpu")
    if probe.device == "cpu":
        os.environ["TRITON_INTERPRET"] = "1"
    _cases.run(probe, __file__, list(CASES), limit=CASE_SECONDS)


def distributions() -> list[str]:
    """Every package that brings a module called triton; there should be one."""
    names = importlib.metadata.packages_distributions().get("triton", [])
    return sorted({f"{name} {importlib.metadata.version(name)}" for name in names})


def scale_and_add(torch: Any, device: str) -> dict[str, Any]:
    kernels = _probe.neighbour("_triton_kernels")
    left, right = torch.arange(COUNT).float(), torch.arange(COUNT).float().flip(0)
    result = torch.full((COUNT,), -1.0, device=device)
    kernels.launch_scale_and_add(left.to(device), right.to(device), result, FACTOR, BLOCK)
    return {"differ": int((result.cpu() != left * FACTOR + right).sum())}


def row_sums(torch: Any, device: str) -> dict[str, Any]:
    kernels = _probe.neighbour("_triton_kernels")
    matrix = torch.arange(ROWS * COLUMNS).float().reshape(ROWS, COLUMNS)
    result = torch.full((ROWS,), -1.0, device=device)
    kernels.launch_row_sums(matrix.to(device), result, 128)
    return {"differ": int((result.cpu() != matrix.sum(1)).sum())}


CASES: dict[str, _cases.Case] = {"scale and add": scale_and_add, "row sums": row_sums}


if __name__ == "__main__":
    _cases.answer(CASES)
    _probe.main(body, name="triton-kernel")
