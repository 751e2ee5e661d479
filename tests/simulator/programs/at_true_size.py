"""What holds at true size; the mode is the argument. Values are those of programs on an NPU."""

# ruff: noqa: T201 - a program whose output is read

from __future__ import annotations

import os
import resource
import sys

import torch
import torch.distributed as dist

MIB = 1 << 20


def train() -> None:
    """Weights of 128 MiB and their states are counted, and hardly a page is written."""
    net = torch.nn.Sequential(
        *(
            torch.nn.Linear(4096, 4096, bias=False, device="npu", dtype=torch.bfloat16)
            for _ in range(4)
        )
    )
    print("weights", torch.npu.memory_allocated() // MIB)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    optimizer = torch.optim.AdamW(net.parameters())
    for _ in range(2):
        net(torch.ones(8192, 4096, dtype=torch.bfloat16, device="npu")).float().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    print("states", torch.npu.memory_allocated() // MIB)
    print("grown", (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024 < 128)


def values() -> None:
    """Small and integer values are computed; what large ones decide is known or balanced."""
    numbers = torch.arange(1 << 20, device="npu")
    print("integers", (numbers % 7 == 0).sum().item())
    mask = torch.tensor([True, False, True], device="npu")
    print("masked", torch.tensor([1.0, 2.0, 3.0], device="npu")[mask].tolist())
    large = torch.randn(4096, 4096, device="npu")
    print("small of large", large.sum().log().item(), (large > 0).shape)
    experts = torch.randn(4096, 64, device="npu").topk(8).indices
    print("experts", set(torch.bincount(experts.flatten().cpu(), minlength=64).tolist()))


def host() -> None:
    """Weights of 1 GiB are drawn, cast, moved back and saved, and hardly a page is written."""
    weights = torch.empty(1 << 28, dtype=torch.bfloat16).normal_().float()
    values = torch.arange(9.0)
    torch.save([weights.npu().cpu(), weights.clone(), values], "saved.pt")
    print("small", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 1 << 20)
    status = os.stat("saved.pt")
    print("saved", status.st_size // MIB, status.st_blocks * 512 // MIB)
    print("values", torch.load("saved.pt", mmap=True)[2].equal(values))


def exhaust() -> None:
    torch.empty(3 << 30, dtype=torch.uint8, device="npu")


def communicate() -> None:
    """Two stages of two ranks that are alike: groups, collectives and messages of all sizes."""
    rank = int(os.environ["RANK"])
    torch.npu.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("hccl")
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    stages = [dist.new_group([0, 2]), dist.new_group([1, 3])]
    tensor, stage = pairs[rank // 2], stages[rank % 2]
    large = torch.zeros((rank // 2 + 1) * MIB, device="npu")
    dist.all_reduce(large, group=tensor)
    gathered = [torch.empty_like(large) for _ in range(2)]
    dist.all_gather(gathered, large, group=tensor)
    dist.all_to_all(gathered, gathered[::-1], group=tensor)
    small = torch.tensor([rank // 2], device="npu")
    dist.all_reduce(small, op=dist.ReduceOp.MAX)
    message = torch.full((4,), float(rank // 2), device="npu")
    dist.all_reduce(message, group=stage)
    passed = torch.empty(5 * MIB, device="npu")
    if rank < 2:
        dist.send(passed, rank + 2)
    else:
        dist.recv(passed, rank - 2)
    dist.barrier()
    torch.npu.synchronize()
    seen = (small.item(), message.tolist(), torch.npu.max_memory_allocated())
    print("rank", rank, *seen, flush=True)


def pace() -> None:
    """Rank 1 multiplies ten times as often as rank 0, and both add 64 MiB at the end of a step."""
    torch.npu.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("hccl")
    weight = torch.nn.Parameter(torch.zeros(16 * MIB, device="npu"))
    weight.grad = torch.zeros_like(weight)
    optimizer = torch.optim.SGD([weight])
    factor = torch.zeros(4096, 4096, dtype=torch.bfloat16, device="npu")
    for _ in range(3):
        for _ in range(10 if dist.get_rank() else 1):
            factor @ factor
        dist.all_reduce(weight.grad)
        optimizer.step()


globals()[sys.argv[1]]()
