"""Measures the collectives of a training step over a range of message sizes.

Run it alone: ``torchrun --nproc-per-node 8 probes/bandwidth.py --device npu``. All-reduce,
all-gather, reduce-scatter, all-to-all and broadcast of float32, from 1 KiB up, on all ranks. The
sizes and the two bandwidths are those of nccl-tests and hccl_test. Recorded: ``rates`` by
collective and size in bytes, each with ``us``, ``algbw`` and ``busbw`` in GB/s. HCCL is slower
where a message is larger than HCCL_BUFFSIZE.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import _probe
from _probe import Probe
from _rates import bandwidths, mean_seconds

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
            found = rates[name] = {}
            size = SMALLEST
            while size <= LARGEST[probe.strength]:
                # A number of elements that all ranks share evenly.
                count = max(size // ITEM // probe.world_size, 1) * probe.world_size
                work = prepare(probe, torch, dist, count)
                repeats = 20 if size < 1 << 24 else 5
                seconds = mean_seconds(
                    work, lambda: probe.synchronise(torch), repeats=repeats, warm=WARM
                )
                found[str(count * ITEM)] = bandwidths(name, count * ITEM, seconds, probe.world_size)
                size *= FACTOR
            probe.measure("rates", rates)


Work = Callable[[], Any]


def filled(probe: Probe, torch: Any, count: int) -> Any:
    return torch.ones(count, dtype=torch.float32, device=probe.place())


def all_reduce(probe: Probe, torch: Any, dist: Any, count: int) -> Work:
    # Zeros stay zeros, however often they are added up.
    tensor = torch.zeros(count, dtype=torch.float32, device=probe.place())
    return lambda: dist.all_reduce(tensor)


def all_gather(probe: Probe, torch: Any, dist: Any, count: int) -> Work:
    got = filled(probe, torch, count)
    mine = filled(probe, torch, count // probe.world_size)
    return lambda: dist.all_gather_into_tensor(got, mine)


def reduce_scatter(probe: Probe, torch: Any, dist: Any, count: int) -> Work:
    mine = filled(probe, torch, count)
    got = filled(probe, torch, count // probe.world_size)
    return lambda: dist.reduce_scatter_tensor(got, mine)


def all_to_all(probe: Probe, torch: Any, dist: Any, count: int) -> Work:
    mine, got = filled(probe, torch, count), filled(probe, torch, count)
    return lambda: dist.all_to_all_single(got, mine)


def broadcast(probe: Probe, torch: Any, dist: Any, count: int) -> Work:
    tensor = filled(probe, torch, count)
    return lambda: dist.broadcast(tensor, src=0)


COLLECTIVES = {
    "all-reduce": all_reduce,
    "all-gather": all_gather,
    "reduce-scatter": reduce_scatter,
    "all-to-all": all_to_all,
    "broadcast": broadcast,
}


if __name__ == "__main__":
    _probe.main(body, name="bandwidth")
