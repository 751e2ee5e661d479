"""Measures copies inside the memory of all devices at once, and checks them.

A copy reads and writes, so that twice its bytes count. Recorded: ``rates`` with ``copy`` in GB/s
(10^9 bytes), ``bytes`` of the buffer, and ``name`` of the device.
"""

from __future__ import annotations

from typing import Any

import _probe
from _probe import Probe
from _rates import GIGA, mean_seconds
from gemm import name_of

MANIFEST = {
    "order": 360,
    "level": 4,
    "seconds": 300,
    "seconds_cpu": 90,
    "needs": ["allreduce"],
    "torchrun": True,
    "does": "GB/s of copies inside the memory, read and written bytes",
    "on_cpu": "32 MiB",
}

# Of a device more than its caches hold, so that memory itself is read and written.
BYTES = {"npu": 1 << 30, "cuda": 1 << 30, "cpu": 1 << 25}
REPEATS, WARM = 10, 2
ITEM = 4


def body(probe: Probe) -> None:
    """GB/s of copies inside the memory of a device."""
    torch = probe.torch()
    probe.join()
    size = BYTES[probe.strength]
    probe.measure("bytes", size)
    probe.measure("name", name_of(probe, torch))
    with probe.stage("copy"):
        source = torch.arange(size // ITEM, dtype=torch.int32, device=probe.torch_device())
        target = torch.zeros_like(source)
        seconds = mean_seconds(
            lambda: target.copy_(source),
            lambda: probe.synchronise(torch),
            repeats=REPEATS,
            warm=WARM,
        )
        probe.measure("rates", {"copy": 2 * size / seconds / GIGA})
        compare(probe, torch, target)


def compare(probe: Probe, torch: Any, target: Any) -> None:
    if probe.tampers("copy"):
        target[5] += 1
    expected = torch.arange(len(target), dtype=torch.int32, device=target.device)
    probe.expect("elements that a copy changed", int((target != expected).sum()), 0)


if __name__ == "__main__":
    _probe.main(body, name="hbm")
