"""Adds up distinguishing values over all ranks and compares every element on every rank.

Run it alone: ``torchrun --nproc-per-node 4 probes/allreduce.py --device cpu``. Each rank gives
(rank + 1) times a pattern of small whole numbers, so that every sum is exact in its dtype and a
missing, doubled or misplaced contribution changes it. Sizes run from one element to an uneven
9 MiB. Measured: first call (it builds the links), mean of five more, barrier, one further group.
"""

from __future__ import annotations

import time
from typing import Any

import _probe
from _probe import Probe

MIB = 1 << 20
SIZES = (("1 element", 0), ("1 KiB", 1024), ("1 MiB", MIB), ("9 MiB and 3 elements", 9 * MIB))
# The largest whole number up to which all whole numbers are exact.
EXACT = {"float32": 1 << 24, "bfloat16": 1 << 8, "float16": 1 << 11, "int64": 1 << 62}
REPEATS = 5


def weights(world_size: int, exact: int) -> tuple[list[int], int]:
    """Value of each rank, and the length of the pattern, such that all sums stay exact."""
    total = world_size * (world_size + 1) // 2
    if total <= exact:
        return list(range(1, world_size + 1)), min(7, exact // total)
    return [1] * world_size, max(min(7, exact // world_size), 1)


def body(probe: Probe) -> None:
    """Sum of rank + 1 over all ranks, by value, for several dtypes and sizes."""
    torch = probe.torch()
    dist = probe.join()
    with probe.stage("link"):
        probe.measure("first_call_s", timed(probe, torch, dist, repeats=1))
    absent = _probe.lacking(probe.device)
    probe.measure("left_out", sorted(absent))
    for dtype in (one for one in EXACT if one not in absent):
        with probe.stage(f"sum {dtype}"):
            check(probe, torch, dist, dtype)
    with probe.stage("steady"):
        probe.measure("steady_s", timed(probe, torch, dist, repeats=REPEATS))
    with probe.stage("barrier"):
        start = time.monotonic()
        dist.barrier()
        probe.synchronise(torch)
        probe.measure("barrier_s", time.monotonic() - start)
    with probe.stage("group"):
        further_group(probe, torch, dist)


def timed(probe: Probe, torch: Any, dist: Any, *, repeats: int) -> float:
    """Mean seconds of an all-reduce of one element."""
    start = time.monotonic()
    for _ in range(repeats):
        dist.all_reduce(torch.ones(1, device=probe.place()))
        probe.synchronise(torch)
    return (time.monotonic() - start) / repeats


def check(probe: Probe, torch: Any, dist: Any, dtype: str) -> None:
    """Sums of all sizes of one dtype, by value."""
    kind = getattr(torch, dtype)
    values, period = weights(probe.world_size, EXACT[dtype])
    for label, size in SIZES:
        count = max(size // kind.itemsize, 1) + (3 if size > MIB else 0)
        pattern = torch.arange(count) % period + 1
        mine = (pattern * values[probe.rank]).to(kind)
        if probe.tampers(f"sum {dtype}"):
            mine[-1] += 1
        tensor = mine.to(probe.place())
        dist.all_reduce(tensor)
        got, wanted = tensor.cpu(), (pattern * sum(values)).to(kind)
        differs = (got != wanted).nonzero().flatten()
        place = int(differs[0]) if len(differs) else 0
        probe.expect(
            f"sum of {label} of {dtype}, element {place} ({len(differs)} of {count} differ)",
            got[place].item(),
            wanted[place].item(),
        )


def further_group(probe: Probe, torch: Any, dist: Any) -> None:
    """A second group of all ranks: made, used and taken down."""
    start = time.monotonic()
    group = dist.new_group(list(range(probe.world_size)))
    tensor = torch.full((1,), float(probe.rank + 1), device=probe.place())
    dist.all_reduce(tensor, group=group)
    probe.expect("sum in a further group", tensor.item(), sum(range(1, probe.world_size + 1)))
    probe.measure("group_s", time.monotonic() - start)
    start = time.monotonic()
    dist.destroy_process_group(group)
    probe.measure("group_teardown_s", time.monotonic() - start)


if __name__ == "__main__":
    _probe.main(body, name="allreduce")
