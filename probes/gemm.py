"""Measures matrix products on all devices at once, and checks that they are right.

Recorded: ``rates`` by dtype in TFLOPS (10^12 operations a second, two for each term), ``side`` of
the square matrices, and ``name`` of the device. Products of whole numbers, which are exact, are
compared.
"""

from __future__ import annotations

from typing import Any

import _probe
from _probe import Probe
from _rates import mean_seconds, teraflops

MANIFEST = {
    "order": 350,
    "level": 4,
    "seconds": 300,
    "seconds_cpu": 90,
    "needs": ["allreduce"],
    "torchrun": True,
    "does": (
        "TFLOPS of square products in three dtypes, all devices at once; whole numbers are compared"
    ),
    "on_cpu": "small ones",
}

# Large enough that the cores of a device compute rather than wait for memory.
SIDES = {"npu": 8192, "cuda": 8192, "cpu": 256}
DTYPES = ("bfloat16", "float16", "float32")
REPEATS, WARM = 10, 3


def body(probe: Probe) -> None:
    """TFLOPS of matrix products."""
    torch = probe.torch()
    probe.join()
    side = SIDES[probe.strength]
    probe.measure("side", side)
    probe.measure("name", name_of(probe, torch))
    absent = _probe.lacking(probe.device)
    rates: dict[str, float] = {}
    for dtype in (name for name in DTYPES if name not in absent):
        with probe.stage(f"product {dtype}"):
            kind = getattr(torch, dtype)
            exact(probe, torch, kind, side)
            left, right = (
                torch.randn(side, side, device=probe.torch_device()).to(kind) for _ in range(2)
            )
            seconds = mean_seconds(
                lambda first=left, other=right: first @ other,
                lambda: probe.synchronise(torch),
                repeats=REPEATS,
                warm=WARM,
            )
            rates[dtype] = teraflops(side, side, side, seconds)
            probe.measure("rates", rates)


def exact(probe: Probe, torch: Any, kind: Any, side: int) -> None:
    """Every element of this product is the number of terms that are not 0, at most 128."""
    # bfloat16 has 8 significant bits: every whole number up to 256 is one of its own.
    there = (torch.arange(side) < min(side, 128)).to(kind).to(probe.torch_device())
    product = there.expand(side, side) @ torch.ones(
        side, side, dtype=kind, device=probe.torch_device()
    )
    if probe.tampers(probe.stage_name):
        product[3, 4] += 1
    wrong = int((product != min(side, 128)).sum())
    probe.expect(f"wrong elements of a product of whole {kind}", wrong, 0)


def name_of(probe: Probe, torch: Any) -> str:
    if probe.device == "cpu":
        return ""
    return str(getattr(torch, probe.device).get_device_name(probe.local_rank))


if __name__ == "__main__":
    _probe.main(body, name="gemm")
