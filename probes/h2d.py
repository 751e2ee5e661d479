"""Measures copies between the host and all devices at once, and checks them.

Recorded: ``rates`` with ``h2d`` and ``d2h`` in GB/s (10^9 bytes), ``pinned``, whether the memory of
the host was, ``bytes`` of the buffer, and ``name`` of the device.
"""

from __future__ import annotations

from typing import Any

import _probe
from _probe import Probe
from _rates import GIGA, mean_seconds
from gemm import name_of

MANIFEST = {
    "order": 370,
    "level": 4,
    "seconds": 300,
    "seconds_cpu": 90,
    "needs": ["allreduce"],
    "torchrun": True,
    "does": "GB/s between pinned memory of the host and the device, both ways",
    "on_cpu": "skipped: there is no bus between the CPU and itself",
}

BYTES = {"npu": 1 << 28, "cuda": 1 << 28, "cpu": 1 << 22}
REPEATS, WARM = 5, 1
ITEM = 4


def body(probe: Probe) -> None:
    """GB/s between the host and a device."""
    if probe.device == "cpu":
        probe.skip("there is no bus between the CPU and itself")
    torch = probe.torch()
    probe.join()
    size = BYTES[probe.strength]
    probe.measure("bytes", size)
    probe.measure("name", name_of(probe, torch))
    with probe.stage("copies"):
        host, pinned = pin(torch.arange(size // ITEM, dtype=torch.int32))
        back, _ = pin(torch.zeros(size // ITEM, dtype=torch.int32))
        probe.measure("pinned", pinned)
        there = torch.zeros(size // ITEM, dtype=torch.int32, device=probe.torch_device())
        rates = {}
        for name, target, source in (("h2d", there, host), ("d2h", back, there)):
            seconds = mean_seconds(
                # Without non_blocking torch waits after each copy, and that is measured, too.
                lambda to=target, of=source: to.copy_(of, non_blocking=True),
                lambda: probe.synchronise(torch),
                repeats=REPEATS,
                warm=WARM,
            )
            rates[name] = size / seconds / GIGA
        probe.measure("rates", rates)
        if probe.tampers("copies"):
            back[5] += 1
        probe.expect("elements that came back changed", int((back != host).sum()), 0)


def pin(tensor: Any) -> tuple[Any, bool]:
    """Memory that a device can read by itself, where the host gives any."""
    try:
        return tensor.pin_memory(), True
    except RuntimeError:
        return tensor, False


if __name__ == "__main__":
    _probe.main(body, name="h2d")
