"""What two nodes measure with each other: one rank of the group of both."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import struct
import sys
import time
from collections.abc import Callable
from typing import Any

import _probe
from _rates import bandwidths

MESSAGES = 200
# The first ones make connections and are not counted.
WARM = 5
# Bytes of the large messages, and the seconds for the small and for the large ones. A message that
# HCCL's network loses is sent again after seconds.
SIZES = {"npu": (1 << 20, 1 << 26), "cuda": (1 << 20, 1 << 26), "cpu": (1 << 18, 1 << 22)}
SMALL_SECONDS = {"npu": 15.0, "cuda": 15.0, "cpu": 4.0}
LARGE_SECONDS = {"npu": 10.0, "cuda": 10.0, "cpu": 3.0}
LARGE_MOST = 10
# A small message that takes so long was lost, or waited for one that was.
STALL_SECONDS = 0.1
# struct tcp_info of linux/tcp.h: tcpi_total_retrans, and tcpi_segs_out behind five numbers of
# eight bytes; both are of Linux 4.2 or later.
TCP_INFO_BYTES = 140
RETRANSMITTED_AT, SENT_AT = 100, 136

Tell = Callable[..., None]
Job = dict[str, Any]


def measure(job: Job, local_rank: int, tell: Tell) -> None:
    """Join the group of the pair, add up by value, and measure small and large messages."""
    torch = sys.modules["torch"]
    from datetime import timedelta

    import torch.distributed as dist

    device, ranks = job["device"], 2 * job["local"]
    rank = job["side"] * job["local"] + local_rank
    _environment(job, rank, local_rank)
    tell(stage="device")
    device_name = "cpu"
    if device != "cpu":
        getattr(torch, device).set_device(local_rank)
        device_name = f"{device}:{local_rank}"
    wait = getattr(torch, device).synchronize if device != "cpu" else _nothing
    tell(stage="store")
    patience = timedelta(seconds=job["setup"])
    store = dist.TCPStore(job["address"], job["port"], is_master=False, timeout=patience)
    if device != "cpu":
        # The rank is killed before; see what torch_npu says of shorter limits there.
        patience = timedelta(seconds=_probe.GROUP_SECONDS[device])
    tell(stage="link")
    start = time.monotonic()
    dist.init_process_group(
        _probe.BACKENDS[device],
        store=dist.PrefixStore(job["prefix"], store),
        rank=rank,
        world_size=ranks,
        timeout=patience,
    )
    pattern = torch.arange(1024) % 7 + 1
    tensor = (pattern * (rank + 1)).to(device_name, torch.float32)
    dist.all_reduce(tensor)
    wait()
    tell(link_s=time.monotonic() - start, stage="small")
    expected = pattern * (ranks * (ranks + 1) // 2)
    tell(wrong=int((tensor.cpu() != expected).sum()))
    before = tcp_counters(job["port"])
    tell(**small(torch, dist, device_name, wait, SMALL_SECONDS[device]))
    after = tcp_counters(job["port"])
    tell(
        stage="large",
        **{key: after[key] - before[key] for key in after},
    )
    tell(rates=large(torch, dist, device_name, wait, device))
    tell(ok=True)
    with contextlib.suppress(Exception):
        # Who leaves first takes the connection away from what the other has not read yet.
        dist.barrier()


def _environment(job: Job, rank: int, local_rank: int) -> None:
    os.environ.update(
        RANK=str(rank),
        WORLD_SIZE=str(2 * job["local"]),
        LOCAL_RANK=str(local_rank),
        LOCAL_WORLD_SIZE=str(job["local"]),
        MASTER_ADDR=job["address"],
        MASTER_PORT=str(job["port"]),
    )
    # torch_npu makes the group of all ranks from that file, whatever ranks are asked for
    # (Ascend/pytorch@9e73e708:torch_npu/csrc/distributed/ProcessGroupHCCL.cpp, createHCCLCommEx).
    os.environ.pop("RANK_TABLE_FILE", None)
    if job["device"] == "npu":
        for name, value in _probe.HCCL_LIMITS.items():
            os.environ.setdefault(name, value)


def _nothing() -> None: ...


def small(
    torch: Any, dist: Any, device_name: str, wait: Callable[[], None], seconds: float
) -> dict[str, Any]:
    """Times of all-reduces of one element: the lower quartile, the worst, and how many stalled.

    A message that is lost delays its answer by the time after which it is sent again, which no
    other message can hide. All ranks stop together when one of them has no more time.
    """
    times: list[float] = []
    end = time.monotonic() + seconds
    while len(times) < MESSAGES + WARM:
        flag = torch.full((1,), float(time.monotonic() > end), device=device_name)
        start = time.perf_counter()
        dist.all_reduce(flag)
        wait()
        times.append(time.perf_counter() - start)
        # The sum tells all ranks alike whether any of them has no time left.
        if flag.item():
            break
    measured = sorted(times[WARM:] or times)
    return {
        "messages": len(measured),
        "us": measured[len(measured) // 4] * 1e6,
        "worst_us": measured[-1] * 1e6,
        "stalls": sum(seconds_each > STALL_SECONDS for seconds_each in measured),
    }


def large(
    torch: Any, dist: Any, device_name: str, wait: Callable[[], None], device: str
) -> dict[str, float]:
    """Bus bandwidth in GB/s by size in bytes, of the best of up to ten all-reduces each.

    The best one says what the link can do: neither a busy processor nor a message that is sent
    again can make it better. A size that would last too long is left out, on all ranks alike.
    """
    rates: dict[str, float] = {}
    sizes = SIZES[device]
    left = LARGE_SECONDS[device]
    for place_of, size in enumerate(sizes):
        tensor = torch.zeros(size // 4, dtype=torch.float32, device=device_name)

        def once(tensor: Any = tensor) -> float:
            start = time.perf_counter()
            dist.all_reduce(tensor)
            wait()
            return time.perf_counter() - start

        # All ranks have to repeat as often, so that the slowest one says how often that is.
        longest = torch.tensor([once()], device=device_name)
        dist.all_reduce(longest, op=dist.ReduceOp.MAX)
        first = float(longest.item())
        repeats = max(min(int(left / 2 / first), LARGE_MOST), 1)
        best = min(once() for _ in range(repeats))
        rates[str(size)] = bandwidths("all-reduce", size, best, dist.get_world_size())["busbw"]
        following = sizes[place_of + 1] / size * first if size != sizes[-1] else 0.0
        if following > left / 2:
            break
    return rates


def tcp_counters(store: int) -> dict[str, int]:
    """Segments that this process has sent and sent again, over all its connections but the store's.

    A kernel counts them by connection, so that neither other programs nor a busy machine come in.
    ``store`` is the port of the store.
    """
    counters = {"sent": 0, "retransmitted": 0}
    for tcp_socket in tcp_sockets():
        with tcp_socket, contextlib.suppress(OSError):
            if tcp_socket.getpeername()[1] != store:
                info = tcp_socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
                counters["retransmitted"] += struct.unpack_from("=I", info, RETRANSMITTED_AT)[0]
                counters["sent"] += struct.unpack_from("=I", info, SENT_AT)[0]
    return counters


def tcp_sockets() -> list[socket.socket]:
    """Duplicates of the connections of this process, to be closed by the caller."""
    sockets = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            number = int(name)
            if stat.S_ISSOCK(os.fstat(number).st_mode):
                tcp_socket = socket.socket(fileno=os.dup(number))
                if tcp_socket.family in {socket.AF_INET, socket.AF_INET6} and tcp_socket.type is (
                    socket.SOCK_STREAM
                ):
                    sockets.append(tcp_socket)
                else:
                    tcp_socket.close()
    return sockets
