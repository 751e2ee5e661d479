"""Keeps all devices busy for the minutes asked for, and compares every result.

Run it alone: ``torchrun --nproc-per-node 8 probes/soak.py --device npu --minutes 10``. Each round
multiplies matrices of zeros and ones, whose product is exact, and adds up distinguishing values
over all ranks. Recorded: ``rounds``, and by tenths of the time ``rates`` in TFLOPS and
``rounds_s``, the mean seconds of a round. A throttled device gets slower; a broken one gets wrong.
"""

from __future__ import annotations

import time
from typing import Any

import _probe
from _probe import Probe
from _rates import mean_seconds, teraflops
from gemm import name_of

MANIFEST = {
    "order": 380,
    "level": 4,
    "seconds": 300,
    "seconds_cpu": 90,
    "needs": ["allreduce"],
    "torchrun": True,
    "soaks": True,
    "does": "products and sums by value for the minutes of `--soak`, speed by tenths of the time",
    "on_cpu": "the same",
}

# float16 holds all whole numbers up to 2048.
SHAPES = {"npu": (8192, 2048), "cuda": (8192, 2048), "cpu": (128, 128)}
PRODUCTS = 20
TENTHS = 10
LENGTH = 1 << 16


def body(probe: Probe) -> None:
    """Matrix products and sums for some minutes, by value."""
    torch = probe.torch()
    dist = probe.join()
    probe.measure("name", name_of(probe, torch))
    seconds = 60 * (probe.minutes or 1.0)
    with probe.stage("prepare"):
        work = Work(probe, torch, dist)
    begin = time.monotonic()
    rates: list[float] = []
    lengths: list[float] = []
    rounds = 0
    for tenth in range(1, TENTHS + 1):
        with probe.stage(f"tenth {tenth}"):
            start, before = time.monotonic(), rounds
            spent = 0.0
            while True:
                spent += work.multiply()
                rounds += 1
                # The first rank says when it is over, so that all stop together.
                if work.add_up(over=time.monotonic() - begin >= seconds * tenth / TENTHS):
                    break
            done = rounds - before
            rates.append(teraflops(*work.shape, spent / done))
            lengths.append((time.monotonic() - start) / done)
            probe.measure("rates", rates)
            probe.measure("rounds_s", lengths)
            probe.measure("rounds", rounds)
    probe.expect("products that were wrong", work.wrong_products, 0)
    probe.expect("sums that were wrong", work.wrong_sums, 0)


class Work:
    """One round: products on the device, then a sum over all ranks."""

    def __init__(self, probe: Probe, torch: Any, dist: Any) -> None:
        self.probe, self.torch, self.dist = probe, torch, dist
        self.wrong_products = self.wrong_sums = 0
        side, inner = SHAPES[probe.strength]
        self.shape = (side, inner, side)
        # Rows have as many ones as their number says; columns are all ones.
        ones = torch.arange(inner)[None] < torch.arange(side)[:, None] % inner
        self._left = ones.to(torch.float16).to(probe.torch_device())
        self._right = torch.ones(inner, side, dtype=torch.float16, device=probe.torch_device())
        self._expected = ones.sum(1, keepdim=True).to(torch.float16).to(probe.torch_device())
        self._addend = torch.full((LENGTH,), float(probe.rank + 1), device=probe.torch_device())
        self._total = float(sum(range(1, probe.world_size + 1)))

    def multiply(self) -> float:
        """Mean seconds of a product; the last one is compared."""
        product = self._left @ self._right
        seconds = mean_seconds(
            lambda: self.torch.matmul(self._left, self._right, out=product),
            lambda: self.probe.synchronise(self.torch),
            repeats=PRODUCTS,
            warm=0,
        )
        if self.probe.tampers(self.probe.stage_name):
            product[7, 7] += 1
        self.wrong_products += int((product != self._expected).any())
        return seconds

    def add_up(self, *, over: bool) -> bool:
        """Whether the first rank says that the time is over."""
        tensor = self._addend.clone()
        # One collective both checks the device and tells the end; a second one would cost time.
        tensor[0] = float(over and self.probe.rank == 0)
        self.dist.all_reduce(tensor)
        self.wrong_sums += int((tensor[1:] != self._total).any())
        return bool(tensor[0].item() > 0)


if __name__ == "__main__":
    _probe.main(body, name="soak")
