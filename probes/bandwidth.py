"""Measures the collectives of a training step over a range of message sizes.

All-reduce, all-gather, reduce-scatter, all-to-all and broadcast of float32, from 1 KiB up, on all
ranks. The sizes and the two bandwidths are those of nccl-tests and hccl_test. Recorded: ``rates``
by collective and size in bytes, each with ``us``, ``algbw`` and ``busbw`` in GB/s. HCCL is slower
where a message is larger than HCCL_BUFFSIZE. After each size every element is compared once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import _probe
from _probe import Probe
from _rates import bandwidths, mean_seconds

MANIFEST = {
    "order": 340,
    "level": 4,
    "seconds": 600,
    "seconds_cpu": 120,
    "needs": ["allreduce"],
    "torchrun": True,
    "does": (
        "five collectives from 1 KiB up: time, algorithm and bus bandwidth as nccl-tests and "
        "hccl_test define them; every element once after each size"
    ),
    "on_cpu": "up to 4 MiB, over gloo",
}

SMALLEST = 1 << 10
LARGEST = {"npu": 1 << 28, "cuda": 1 << 28, "cpu": 1 << 22}
FACTOR = 4
WARM = 2
ITEM = 4


def body(probe: Probe) -> None:
    """Bandwidths of collectives by message size."""
    torch = probe.torch()
    dist = probe.join()
    if probe.world_size == 1:
        probe.skip("one rank moves nothing")
    rates: dict[str, dict[str, Any]] = {}
    for name, prepare in COLLECTIVES.items():
        with probe.stage(name):
            rates_of_type = rates[name] = {}
            size = SMALLEST
            while size <= LARGEST[probe.strength]:
                # A number of elements that all ranks share evenly.
                count = max(size // ITEM // probe.world_size, 1) * probe.world_size
                work, compare = prepare(probe, torch, dist, count)
                # A large message takes long enough to be timed by a few.
                repeats = 20 if size < 1 << 24 else 5
                seconds = mean_seconds(
                    work, lambda: probe.synchronise(torch), repeats=repeats, warm=WARM
                )
                rates_of_type[str(count * ITEM)] = bandwidths(
                    name, count * ITEM, seconds, probe.world_size
                )
                found_right = "right" if compare() else "wrong"
                probe.expect(f"elements of {name} of {count * ITEM} bytes", found_right, "right")
                size *= FACTOR
            probe.measure("rates", rates)


# What is timed, and what says whether it moves the right numbers.
Work = tuple[Callable[[], Any], Callable[[], bool]]
# Prime, as in collectives.py: shares of any length begin with different marks.
PERIOD = 251


class Values:
    """Whole numbers that tell ranks and places apart, on the device; all sums are exact."""

    def __init__(self, probe: Probe, torch: Any, count: int) -> None:
        self.probe, self.torch, self.count = probe, torch, count
        self.rank, self.ranks = probe.rank, range(probe.world_size)
        self.share = count // probe.world_size

    def zeros(self, count: int) -> Any:
        return self.torch.zeros(count, dtype=self.torch.float32, device=self.probe.torch_device())

    def marked(self, count: int, shift: int = 0) -> Any:
        marks = self.torch.arange(PERIOD, dtype=self.torch.float32) + shift + 1
        return marks.repeat(count // PERIOD + 1)[:count].to(self.probe.torch_device())

    def tamper(self, value: Any) -> Any:
        if self.probe.tampers(self.probe.stage_name):
            value[-1] += 1
        return value

    def factor(self, rank: int) -> int:
        # Small, so that sums stay below 2**24, up to which float32 has all whole numbers.
        return rank % 7 + 1

    @property
    def factors(self) -> int:
        return sum(self.factor(rank) for rank in self.ranks)

    def cat(self, pieces: Any) -> Any:
        return self.torch.cat(list(pieces))

    def same(self, got: Any, expected: Any) -> bool:
        return bool(self.torch.equal(got, expected))


def all_reduce(probe: Probe, torch: Any, dist: Any, count: int) -> Work:
    values = Values(probe, torch, count)
    # Zeros stay zeros, however often they are added up.
    tensor = values.zeros(count)

    def right() -> bool:
        mine = values.tamper(values.marked(count) * values.factor(values.rank))
        dist.all_reduce(mine)
        return values.same(mine, values.marked(count) * values.factors)

    return lambda: dist.all_reduce(tensor), right


def all_gather(probe: Probe, torch: Any, dist: Any, count: int) -> Work:
    values = Values(probe, torch, count)
    mine, got = values.tamper(values.marked(values.share, values.rank)), values.zeros(count)

    def right() -> bool:
        got.zero_()
        dist.all_gather_into_tensor(got, mine)
        return values.same(got, values.cat(values.marked(values.share, i) for i in values.ranks))

    return lambda: dist.all_gather_into_tensor(got, mine), right


def reduce_scatter(probe: Probe, torch: Any, dist: Any, count: int) -> Work:
    values = Values(probe, torch, count)
    pieces = values.cat(values.marked(values.share, to) for to in values.ranks)
    mine, got = values.tamper(pieces * values.factor(values.rank)), values.zeros(values.share)

    def right() -> bool:
        got.zero_()
        dist.reduce_scatter_tensor(got, mine)
        return values.same(got, values.marked(values.share, values.rank) * values.factors)

    return lambda: dist.reduce_scatter_tensor(got, mine), right


def all_to_all(probe: Probe, torch: Any, dist: Any, count: int) -> Work:
    values = Values(probe, torch, count)
    got = values.zeros(count)
    mine = values.cat(values.marked(values.share, values.rank + 3 * to) for to in values.ranks)
    values.tamper(mine)

    def right() -> bool:
        got.zero_()
        dist.all_to_all_single(got, mine)
        expected = (values.marked(values.share, rank + 3 * values.rank) for rank in values.ranks)
        return values.same(got, values.cat(expected))

    return lambda: dist.all_to_all_single(got, mine), right


def broadcast(probe: Probe, torch: Any, dist: Any, count: int) -> Work:
    values = Values(probe, torch, count)
    tensor = values.zeros(count)

    def right() -> bool:
        tensor.copy_(values.tamper(values.marked(count)) if values.rank == 0 else tensor)
        dist.broadcast(tensor, src=0)
        return values.same(tensor, values.marked(count))

    return lambda: dist.broadcast(tensor, src=0), right


COLLECTIVES = {
    "all-reduce": all_reduce,
    "all-gather": all_gather,
    "reduce-scatter": reduce_scatter,
    "all-to-all": all_to_all,
    "broadcast": broadcast,
}


if __name__ == "__main__":
    _probe.main(body, name="bandwidth")
