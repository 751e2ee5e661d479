"""Tensor, data and pipeline groups at a large world; ranks of a stage err in the second step.

stages.py KIND STAGE TENSOR STAGES
"""

import os
import sys
from collections.abc import Callable

import torch
import torch.distributed as dist
import torch_npu  # noqa: F401 - brings the NPU

KIND, (STAGE, TP, PP) = sys.argv[1], map(int, sys.argv[2:5])
WORLD, RANK = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
EACH, COUNT, B, F = WORLD // PP, 1 << 20, torch.bfloat16, torch.float32
OWN: dict[str, dist.ProcessGroup] = {}
stage, offset = divmod(RANK, EACH)
IS_LAST, IS_END = stage == PP - 1, stage in {0, PP - 1}


def of(count: int, dtype: torch.dtype = F) -> torch.Tensor:
    return torch.empty(count, dtype=dtype, device="npu")


reduce, gather = dist.all_reduce, dist.all_gather_into_tensor
STEP: dict[str, Callable[[], object]] = {
    "take-hidden": lambda: stage and dist.recv(of(COUNT, B), RANK - EACH),
    "attention": lambda: reduce(of(COUNT, B), group=OWN["tensor"]),
    "feed": lambda: gather(of(COUNT * TP, B), of(COUNT, B), group=OWN["tensor"]),
    "give-hidden": lambda: IS_LAST or dist.send(of(COUNT, B), RANK + EACH),
    "take-gradient": lambda: IS_LAST or dist.recv(of(COUNT, B), RANK + EACH),
    "give-gradient": lambda: stage and dist.send(of(COUNT, B), RANK - EACH),
    "gradients": lambda: reduce(of(4 * COUNT, B), group=OWN["data"]),
    "tied": lambda: IS_END and reduce(of(COUNT, B), group=OWN["ends"]),
    "norm": lambda: reduce(of(1)),
    "flags": lambda: gather(of(WORLD), of(1)),
    "loss": lambda: reduce(of(2, F), group=OWN["pipeline"]),
}
# Before a call, or in its offset.
ERRORS: dict[str, tuple[str, Callable[[], object]]] = {
    "order-gradient-first": ("+take-hidden", lambda: dist.recv(of(COUNT, B), RANK + EACH)),
    "order-gradient-late": ("+give-gradient", lambda: reduce(of(2, F), group=OWN["pipeline"])),
    "order-flags-first": ("+norm", lambda: gather(of(WORLD), of(1))),
    "order-loss-first": ("+norm", lambda: reduce(of(2, F), group=OWN["pipeline"])),
    "order-broadcast": ("norm", lambda: dist.broadcast(of(1), 0)),
    "size-hidden": ("give-hidden", lambda: dist.send(of(COUNT // 2, B), RANK + EACH)),
    "size-gradient": ("give-gradient", lambda: dist.send(of(COUNT * 2, B), RANK - EACH)),
    "size-tied": ("tied", lambda: reduce(of(COUNT + 128, B), group=OWN["ends"])),
    "size-norm": ("norm", lambda: reduce(of(2))),
    "dtype-hidden": ("give-hidden", lambda: dist.send(of(COUNT // 2), RANK + EACH)),
    "dtype-tied": ("tied", lambda: reduce(of(COUNT, F), group=OWN["ends"])),
    "dtype-norm": ("norm", lambda: reduce(of(1, B))),
    "group-tied": ("tied", lambda: reduce(of(COUNT, B), group=OWN["pipeline"])),
    "group-norm": ("norm", lambda: reduce(of(1, F), group=OWN["pipeline"])),
    "branch-more": ("+attention", lambda: reduce(of(COUNT, B), group=OWN["tensor"])),
    "branch-fewer": ("attention", lambda: None),
    "branch-size": ("attention", lambda: reduce(of(COUNT + 8, B), group=OWN["tensor"])),
    "branch-type": ("feed", lambda: gather(of(COUNT * TP, F), of(COUNT, F), group=OWN["tensor"])),
    "branch-norm": ("norm", lambda: None),
}


def make_groups() -> None:
    lists = {
        "tensor": [[*range(at, at + TP)] for at in range(0, WORLD, TP)],
        "data": [[*range(n * EACH + t, n * EACH + EACH, TP)] for n in range(PP) for t in range(TP)],
        "pipeline": [[*range(at, WORLD, EACH)] for at in range(EACH)],
        "ends": [[at, at + WORLD - EACH] for at in range(EACH)],
    }
    for name, each in lists.items():
        for ranks in each:
            group = dist.new_group(ranks, group_desc=name)
            if RANK in ranks:
                OWN[name] = group


torch.npu.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("hccl")
make_groups()
errs = stage == STAGE and (not KIND.startswith("branch") or offset % TP == 1)
for step in range(3):
    for name, call in STEP.items():
        where, error = ERRORS[KIND]
        if errs and step == 1 and where.removeprefix("+") == name:
            error()
        if not (errs and step == 1 and where == name):
            call()
torch.npu.synchronize()
