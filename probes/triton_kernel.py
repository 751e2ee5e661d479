"""Compiles two small Triton kernels for one device and compares what they compute.

On NPUs the package is triton-ascend; an upstream triton beside it, or over it, fails here. The
numbers are whole, so results are exact. There is no compiler for the CPU; there triton's own
interpreter runs the kernels. Recorded: ``cases`` by kernel with ``differ``, the number of wrong
elements, and ``version``; where a kernel ended because the compiler is not there,
``interpretations``, the same by the interpreter.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
from typing import Any

import _cases
import _probe
from _probe import Probe

MANIFEST = {
    "order": 140,
    "level": 2,
    "seconds": 300,
    "seconds_cpu": 120,
    "needs": ["device"],
    "does": "compiles two kernels and compares what they compute",
    "on_cpu": "by triton's interpreter, where triton is installed",
}

# A kernel is compiled at its first launch.
CASE_SECONDS = 180.0
# No multiple of the block: the last one is masked.
COUNT, BLOCK, FACTOR = 1000, 256, 3
ROWS, COLUMNS = 5, 100
# As triton-ascend names its compiler where it looks for it.
NO_COMPILER = re.compile(r"FileNotFoundError.*'(?:bishengir-compile|npuc)'")


def body(probe: Probe) -> None:
    """Kernels of triton, by value."""
    if importlib.util.find_spec("triton") is None:
        probe.skip("triton is not installed")
    with probe.stage("version"):
        probe.measure("distributions", distributions())
        probe.measure("interpreted", probe.device == "cpu")
    if probe.device == "cpu":
        os.environ["TRITON_INTERPRET"] = "1"
    outcomes = _cases.run(probe, __file__, list(CASES), limit=CASE_SECONDS)
    if any(NO_COMPILER.search(outcome.get("error", "")) for outcome in outcomes.values()):
        os.environ["TRITON_INTERPRET"] = "1"
        interpretations = _cases.run(probe, __file__, list(INTERPRETED), limit=CASE_SECONDS)
        by_kernel = dict(zip(CASES, interpretations.values(), strict=True))
        probe.measure("interpretations", by_kernel)
        probe.measure("cases", outcomes)


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


def on_cpu(case: _cases.Case) -> _cases.Case:
    """The case with tensors of the CPU, which the interpreter reads."""
    return lambda torch, _: case(torch, "cpu")


CASES: dict[str, _cases.Case] = {"scale and add": scale_and_add, "row sums": row_sums}
INTERPRETED = {f"{name}, interpreted": on_cpu(case) for name, case in CASES.items()}


if __name__ == "__main__":
    _cases.answer({**CASES, **INTERPRETED})
    _probe.main(body, name="triton-kernel")
