"""Adds up distinguishing values over all ranks and compares every element on every rank.

Each rank gives (rank + 1) times a pattern of small whole numbers, so that every sum is exact in its
dtype and a missing, doubled or misplaced contribution changes it. Sizes run from one element over
uneven ones of 2 to 9 MiB to one that is larger than the buffer of HCCL. Then means, and sums of
several tensors at once that are waited for in another order. Measured: first call (it builds the
links), mean of five more, barrier, one further group.
"""

from __future__ import annotations

import os
import time
from typing import Any

import _probe
from _probe import Probe

MANIFEST = {
    "order": 200,
    "level": 3,
    "seconds": 300,
    "seconds_cpu": 90,
    "needs": ["pair-rounds"],
    "torchrun": True,
    "does": (
        "sums of distinguishing values in five dtypes, from one element over 2, 4, 6 and 9 MiB to "
        "more than HCCL's buffer; means; several at once; a second group"
    ),
    "on_cpu": "over gloo, up to 9 MiB, without means; on the simulated NPU up to 9 MiB, too",
}

MIB = 1 << 20
# Algorithms change with the size, and pieces with the buffer.
SIZES = (0, 1 << 10, MIB, 2 * MIB, 4 * MIB, 6 * MIB, 9 * MIB)
# Every rank has one of these; HCCL_BUFFSIZE is in MB, 200 where it is not set
# (hicann/hccl@09300b70:docs/zh/user_guide/hccl_env/HCCL_BUFFSIZE.md).
BUFFER = 200
# The largest whole number up to which all whole numbers are exact.
EXACT = {
    "float32": 1 << 24,
    "bfloat16": 1 << 8,
    "float16": 1 << 11,
    "int32": 1 << 30,
    "int64": 1 << 62,
}
AT_ONCE = 4
# Patterns in a piece: torch repeats long pieces in a tenth of the time.
MANY = 1 << 10
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
        probe.measure("first_call_s", time_all_reduces(probe, torch, dist, repeats=1))
    absent = _probe.lacking(probe.device)
    probe.measure("left_out", sorted(absent))
    for dtype in (name for name in EXACT if name not in absent):
        with probe.stage(f"sum {dtype}"):
            check(probe, torch, dist, dtype)
    with probe.stage("several at once"):
        several(probe, torch, dist)
    with probe.stage("means"):
        means(probe, torch, dist)
    with probe.stage("steady"):
        probe.measure("steady_s", time_all_reduces(probe, torch, dist, repeats=REPEATS))
    with probe.stage("barrier"):
        start = time.monotonic()
        dist.barrier()
        probe.synchronise(torch)
        probe.measure("barrier_s", time.monotonic() - start)
    with probe.stage("group"):
        further_group(probe, torch, dist)


def time_all_reduces(probe: Probe, torch: Any, dist: Any, *, repeats: int) -> float:
    """Mean seconds of an all-reduce of one element."""
    start = time.monotonic()
    for _ in range(repeats):
        dist.all_reduce(torch.ones(1, device=probe.torch_device()))
        probe.synchronise(torch)
    return (time.monotonic() - start) / repeats


def sizes_of(probe: Probe, dtype: str) -> list[int]:
    """In bytes; gradients are float32, and one of them is larger than the buffer."""
    buffer = int(os.environ.get("HCCL_BUFFSIZE") or BUFFER)
    large = [(buffer + 1) * MIB] if probe.strength != "cpu" and dtype == "float32" else []
    return [*SIZES, *large]


def check(probe: Probe, torch: Any, dist: Any, dtype: str) -> None:
    """Sums of all sizes of one dtype, by value."""
    kind = getattr(torch, dtype)
    for size in sizes_of(probe, dtype):
        # Three more: a number that neither ranks nor pieces of the buffer share evenly.
        count = max(size // kind.itemsize, 1) + (3 if size > MIB else 0)
        tensor, expected = addend(probe, torch, dtype, count)
        dist.all_reduce(tensor)
        compare(probe, f"sum of {count} {dtype}", tensor, expected)


def addend(probe: Probe, torch: Any, dtype: str, count: int, turn: int = 0) -> tuple[Any, Any]:
    """What this rank gives, on the device, and the sum of all."""
    values, period = weights(probe.world_size, EXACT[dtype])
    kind = getattr(torch, dtype)
    # Each of several at once has its pattern turned, so that two that are exchanged show.
    pattern = (torch.arange(period) + turn) % period + 1
    mine, expected = (
        (pattern * value).to(kind).repeat(MANY).repeat(count // (period * MANY) + 1)[:count]
        for value in (values[probe.rank], sum(values))
    )
    if probe.tampers(f"sum {dtype}"):
        mine[-1] += 1
    return mine.to(probe.torch_device()), expected


def compare(probe: Probe, what: str, tensor: Any, expected: Any) -> None:
    got = tensor.cpu()
    differs = (got != expected).nonzero().flatten()
    position = int(differs[0]) if len(differs) else 0
    probe.expect(
        f"{what}, element {position} ({len(differs)} differ)",
        got[position].item(),
        expected[position].item(),
    )


def several(probe: Probe, torch: Any, dist: Any) -> None:
    """Sums that run at once, as those of gradients do, waited for from the last to the first."""
    count = MIB // 4 + 3
    pairs = [addend(probe, torch, "float32", count, turn) for turn in range(AT_ONCE)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor, _ in pairs]
    for number in reversed(range(AT_ONCE)):
        works[number].wait()
        probe.synchronise(torch)
        compare(probe, f"sum {number + 1} of {AT_ONCE} at once", *pairs[number])


def means(probe: Probe, torch: Any, dist: Any) -> None:
    """As ``average_in_collective`` asks for them. gloo has none (torch 2.13)."""
    if probe.device == "cpu":
        probe.measure("left_out_means", "gloo has no AVG")
        return
    # The mean of a whole number of times the ranks is a whole number.
    count = MIB // 4 + 3
    pattern = (torch.arange(count) % 7 + 1).float()
    tensor = (pattern * (2 * probe.rank + 1)).to(probe.torch_device())
    dist.all_reduce(tensor, op=dist.ReduceOp.AVG)
    compare(probe, "mean of all ranks", tensor, pattern * probe.world_size)


def further_group(probe: Probe, torch: Any, dist: Any) -> None:
    """A second group of all ranks: made, used and taken down."""
    start = time.monotonic()
    group = dist.new_group(list(range(probe.world_size)))
    tensor = torch.full((1,), float(probe.rank + 1), device=probe.torch_device())
    dist.all_reduce(tensor, group=group)
    probe.expect("sum in a further group", tensor.item(), sum(range(1, probe.world_size + 1)))
    probe.measure("group_s", time.monotonic() - start)
    start = time.monotonic()
    dist.destroy_process_group(group)
    probe.measure("group_teardown_s", time.monotonic() - start)


if __name__ == "__main__":
    _probe.main(body, name="allreduce")
