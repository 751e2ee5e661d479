"""Four all_reduce of one element; every rank says how far it comes, and what stops it."""

import os
import sys
import time

import torch
import torch.distributed as dist


def say(text: str) -> None:
    """A line in one write: ranks share the launcher's output, and Python may not buffer it."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


torch.npu.set_device(int(os.environ.get("ONE_DEVICE", os.environ["LOCAL_RANK"])))
try:
    dist.init_process_group("hccl")
    rank = dist.get_rank()
    for step in range(4):
        tensor = torch.ones(1).npu()
        dist.all_reduce(tensor)
        torch.npu.synchronize()
        say(f"rank {rank} step {step} value {tensor.item():g}")
    gathered: list[object] = [None] * dist.get_world_size()
    dist.all_gather_object(gathered, rank)
    say(f"rank {rank} objects {gathered}")
except RuntimeError as error:
    say(f"rank {os.environ['RANK']} stopped: {error}")
    if "LINGER" in os.environ:
        time.sleep(60)  # until torch_npu's watchdog ends the process
    time.sleep(0.5)  # let the others say the same before the launcher ends them
    os._exit(1)
os._exit(0)
