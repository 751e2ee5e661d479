"""Seconds into rates: bytes and floating-point operations a second, in powers of ten.

Bus bandwidth is defined as nccl-tests and hccl_test do: the size is that of the whole buffer (of
all-gather what a rank receives, of reduce-scatter what it sends, else what it holds), algorithm
bandwidth is size over time, and bus bandwidth is what each link must have carried for it
(https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

GIGA = 1e9
TERA = 1e12


def bus_factor(name: str, ranks: int) -> float:
    """Bus over algorithm bandwidth of a collective."""
    if name == "broadcast":
        return 1.0
    # What a rank has already crosses no link; an all-reduce is a scatter and a gather.
    share = (ranks - 1) / ranks
    return 2 * share if name == "all-reduce" else share


def bandwidths(name: str, size: int, seconds: float, ranks: int) -> dict[str, float]:
    """Algorithm and bus bandwidth in GB/s (10^9 bytes), and the time in microseconds."""
    algorithm = size / seconds / GIGA
    return {
        "us": seconds * 1e6,
        "algbw": algorithm,
        "busbw": algorithm * bus_factor(name, ranks),
    }


def teraflops(rows: int, inner: int, columns: int, seconds: float) -> float:
    """Of a matrix product: a multiplication and an addition for each of its terms."""
    return 2 * rows * inner * columns / seconds / TERA


def mean_seconds(
    work: Callable[[], Any], wait: Callable[[], Any], repeats: int, warm: int
) -> float:
    """Mean time of a call. ``wait`` waits for the device; calls only enqueue."""
    # The first calls compile, allocate and connect.
    for _ in range(warm):
        work()
    wait()
    start = time.perf_counter()
    for _ in range(repeats):
        work()
    wait()
    return (time.perf_counter() - start) / repeats
