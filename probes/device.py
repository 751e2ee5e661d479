"""Allocates on one device, copies both ways, multiplies, and gives the memory back.

The products of 256 x 256 matrices in float32, float16 and bfloat16 are compared with a float64
product on the CPU of the same rounded factors; recorded is the largest difference relative to the
largest element. An exception in one dtype is recorded and the next one is tried.
"""

from __future__ import annotations

import time
from typing import Any

import _probe
from _probe import Probe

MANIFEST = {
    "order": 70,
    "level": 2,
    "seconds": 300,
    "seconds_cpu": 90,
    "needs": ["inspect-env"],
    "forked": True,
    "does": "memory, copies both ways, matrix products in three dtypes",
    "on_cpu": "the same",
}

SIDE = 256
COPY = 64 << 20
DTYPES = ("float32", "float16", "bfloat16")


def body(probe: Probe) -> None:
    """One device: memory, copies and matrix products by value."""
    torch = probe.torch()
    accelerator = None if probe.device == "cpu" else getattr(torch, probe.device)
    describe(probe, torch, accelerator)
    before = accelerator.memory_allocated() if accelerator else None
    with probe.stage("copy"):
        copy(probe, torch)
    products = {}
    for dtype in DTYPES:
        with probe.stage(f"matmul {dtype}"):
            products[dtype] = multiply(probe, torch, getattr(torch, dtype))
    probe.measure("matmul", products)
    with probe.stage("memory"):
        if accelerator:
            accelerator.synchronize()
            # Blocks that torch keeps for later are no leak, nor is what it gives cuBLAS to work in:
            # 32 MiB on Hopper (seen on an H200 with torch 2.11.0).
            if probe.device == "cuda":
                torch._C._cuda_clearCublasWorkspaces()  # noqa: SLF001 - there is no public way
            accelerator.empty_cache()
            probe.measure("leaked_bytes", accelerator.memory_allocated() - before)


def describe(probe: Probe, torch: Any, accelerator: Any) -> None:
    with probe.stage("describe"):
        probe.measure("torch", torch.__version__)
        if accelerator:
            probe.measure("name", accelerator.get_device_name(probe.local_rank))
            free, total = accelerator.mem_get_info(probe.local_rank)
            probe.measure("memory_free", free)
            probe.measure("memory_total", total)


def copy(probe: Probe, torch: Any) -> None:
    """Host to device to device to host, by value."""
    host = torch.arange(COPY // 4, dtype=torch.int32)
    start = time.monotonic()
    there = host.to(probe.torch_device())
    back = there.clone().cpu()
    probe.measure("copy_s", time.monotonic() - start)
    probe.measure("copy_bytes", COPY)
    if probe.tampers("copy"):
        back[7] += 1
    probe.expect("elements that differ after host, device, host", int((back != host).sum()), 0)


def multiply(probe: Probe, torch: Any, kind: Any) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(1234)
    left, right = (torch.randn(SIDE, SIDE, generator=generator).to(kind) for _ in range(2))
    expected = left.double() @ right.double()
    start = time.monotonic()
    try:
        got = (left.to(probe.torch_device()) @ right.to(probe.torch_device())).cpu().double()
    except Exception as error:  # noqa: BLE001 - a dtype that this device lacks is a measurement
        return {"error": _probe.innermost(error)}
    if probe.tampers(probe.stage_name):
        # More than any product of these numbers is off by rounding.
        got[3, 4] += 100.0
    difference = (got - expected).abs().max() / expected.abs().max()
    return {
        "finite": bool(torch.isfinite(got).all()),
        "error_relative": difference.item(),
        "seconds": time.monotonic() - start,
    }


if __name__ == "__main__":
    _probe.main(body, name="device")
