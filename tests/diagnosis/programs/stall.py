"""A training run of four ranks of which one stalls: `stall.py KIND GUILTY STEP LAYOUT`.

Tensor pairs, data pairs and the world, as Megatron's groups are called; every step loads a batch,
reduces, passes a tensor down the pipeline where LAYOUT is "pipeline", and writes a checkpoint
every other step. KIND says what GUILTY does differently at STEP; the comments "stalls: KIND" are
where it then stands, or what it calls wrongly. Runs under torchrun; in the folder HANG_REACHED
every rank that came as far as STEP leaves a file.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
import torch_npu
from torch.utils.data import DataLoader, Dataset

WAIT = 300  # seconds that the watchdog of torch_npu allows a collective
STEPS = 8
FOREVER = 600


class Samples(Dataset):  # type: ignore[misc]
    def __init__(self, blocked: int | None) -> None:
        self.blocked = blocked

    def __len__(self) -> int:
        return STEPS

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == self.blocked:
            time.sleep(FOREVER)  # helper: loader
        return torch.ones(4)


def batches(blocked: int | None) -> Iterator[torch.Tensor]:
    return iter(DataLoader(Samples(blocked), batch_size=1, num_workers=1, prefetch_factor=1))


class Pipe:
    """A file that nobody reads from: who writes a checkpoint there waits for ever."""

    def __init__(self, folder: Path, rank: int) -> None:
        self.path = folder / f"pipe-{rank}"
        if not self.path.exists():
            os.mkfifo(self.path)


def save(value: torch.Tensor, folder: Path, rank: int, *, blocked: bool) -> None:
    path = folder / f"checkpoint-{rank}"
    if blocked:
        path = Pipe(folder, rank).path
    with path.open("wb") as file:  # stalls: checkpoint
        torch.save(value.cpu(), file)


def take(lock: threading.Lock, now: str) -> None:
    if now == "lock":
        threading.Thread(target=hold, args=(lock,), daemon=True).start()
        time.sleep(0.2)
    with lock:  # stalls: lock
        pass


def hold(lock: threading.Lock) -> None:
    with lock:
        time.sleep(FOREVER)


def pipeline(value: torch.Tensor, rank: int, world: int, *, sends: bool) -> None:
    if rank > 0:
        dist.recv(value, rank - 1)
    if rank < world - 1 and sends:
        dist.send(value, rank + 1)


def reduce(value: torch.Tensor, groups: dict[str, object], now: str) -> None:
    tensor, data = groups["tensor"], groups["data"]
    if now == "order":
        dist.all_reduce(value)  # stalls: order
    if now == "group":
        dist.all_reduce(value, group=groups["other"])  # stalls: group
    else:
        dist.all_reduce(value, group=tensor)
    dist.all_reduce(value, group=data)


def make_groups(rank: int, world: int) -> dict[str, object]:
    groups: dict[str, object] = {}
    for first in range(0, world, 2):
        tensor = dist.new_group([first, first + 1], group_desc="TENSOR_MODEL_PARALLEL_GROUP")
        if rank in {first, first + 1}:
            groups["tensor"] = tensor
    for first in range(2):
        ranks = list(range(first, world, 2))
        data = dist.new_group(ranks, group_desc="DATA_PARALLEL_GROUP")
        if rank in ranks:
            groups["data"] = data
    groups["other"] = dist.new_group(list(range(world)), group_desc="EMBEDDING_GROUP")
    return groups


def main() -> None:
    kind, guilty, at, layout = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    folder = Path(os.environ["HANG_REACHED"])
    torch_npu.npu.set_device(rank)
    dist.init_process_group("hccl", timeout=timedelta(seconds=WAIT))
    groups = make_groups(rank, world)
    lock = threading.Lock()
    mine = kind if rank == guilty else ""
    loaded = batches(at if mine == "loader" else None)
    for step in range(STEPS):
        if step == at:
            (folder / str(rank)).touch()
        now = mine if step == at else ""
        value = next(loaded).npu()  # stalls: loader
        if now == "sleep":
            time.sleep(FOREVER)  # stalls: sleep
        if now == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)  # stalls: stop
        take(lock, now)
        reduce(value, groups, now)
        if layout == "pipeline":
            pipeline(value, rank, world, sends=now != "peer")
        torch_npu.npu.synchronize()
        if step % 2 == 0 or now == "checkpoint":
            save(value, folder, rank, blocked=now == "checkpoint")
        dist.all_reduce(value)
        torch_npu.npu.synchronize()  # stalls: peer
        sys.stdout.write(f"step {step} of rank {rank}: {value.sum().item():.1f}\n")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
