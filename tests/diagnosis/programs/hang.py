"""A small training run of which one rank hangs: `hang.py KIND GUILTY STEP LAYOUT`.

Every step loads a batch, reduces over the world and over pairs of ranks, and with LAYOUT "pipeline"
passes a tensor down all ranks. KIND says what GUILTY does differently at STEP. Runs under torchrun;
in the folder HANG_REACHED every rank that came as far as STEP leaves a file.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
import torch_npu
from torch.utils.data import DataLoader, Dataset

WAIT = 8  # seconds that the watchdog of torch_npu allows a collective
STEPS = 6
FOREVER = 600


class Samples(Dataset):  # type: ignore[misc]
    def __init__(self, blocked: int | None) -> None:
        self.blocked = blocked

    def __len__(self) -> int:
        return STEPS

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == self.blocked:
            time.sleep(FOREVER)
        return torch.ones(4)


def batches(blocked: int | None) -> Iterator[torch.Tensor]:
    return iter(DataLoader(Samples(blocked), batch_size=1, num_workers=1, prefetch_factor=1))


def pipeline(value: torch.Tensor, rank: int, world: int, *, sends: bool) -> None:
    if rank > 0:
        dist.recv(value, rank - 1)
    if rank < world - 1 and sends:
        dist.send(value, rank + 1)


def main() -> None:
    kind, guilty, at, layout = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch_npu.npu.set_device(rank)
    dist.init_process_group("hccl", timeout=timedelta(seconds=WAIT))
    pairs = [dist.new_group([first, first + 1]) for first in range(0, world, 2)]
    pair = pairs[rank // 2]
    other = dist.new_group(list(range(world)))
    mine = kind if rank == guilty else ""
    loaded = batches(at if mine == "loader" else None)
    for step in range(STEPS):
        if step == at:
            Path(os.environ["HANG_REACHED"], str(rank)).touch()
        now = mine if step == at else ""
        value = next(loaded).npu()
        halves = torch.cat([value, value], 1)
        if now == "sleep":
            time.sleep(FOREVER)
        if now == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        if now == "order":
            dist.all_reduce(halves, group=pair)
            dist.all_reduce(value)
        else:
            dist.all_reduce(value, group=other if now == "group" else None)
            dist.all_reduce(halves, group=pair)
        if layout == "pipeline":
            pipeline(value, rank, world, sends=now != "peer")
        torch_npu.npu.synchronize()
        sys.stdout.write(f"step {step} of rank {rank}: {value.sum().item():.1f}\n")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
