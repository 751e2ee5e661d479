"""Four ranks that sum, broadcast and sum again in each of five rounds; in round 3 a rank errs.

The first argument is what it does. Every round before is sound: 1 + 3 collectives each.
"""

import os
import signal
import sys
import time

import torch
import torch.distributed as dist
import torch_npu  # noqa: F401 - brings the NPU

KIND = sys.argv[1]
RANK = int(os.environ["RANK"])
FOREVER = 3600


def sleep_at(rank: int) -> None:
    if rank == RANK:
        time.sleep(FOREVER)


def sound(data: torch.Tensor, pair: dist.ProcessGroup, twin: dist.ProcessGroup) -> None:
    dist.all_reduce(data)
    dist.broadcast(data, src=0)
    dist.all_reduce(data, group=pair)
    dist.all_reduce(data, group=twin)
    torch.npu.synchronize()


def err(data: torch.Tensor, twin: dist.ProcessGroup) -> None:  # noqa: C901, PLR0912 - a table of mistakes
    if KIND in {"asleep", "timeout", "interrupted"}:
        sleep_at(2)
    elif KIND == "dead" and RANK == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    elif KIND == "stopped" and RANK == 0:
        os.kill(os.getpid(), signal.SIGSTOP)
    elif KIND == "exception" and RANK == 2:
        raise ValueError("a bad sample")
    elif KIND == "fewer" and RANK == 3:
        os._exit(0)
    elif KIND == "other-collective" and RANK == 1:
        dist.all_gather([torch.empty_like(data) for _ in range(4)], data)
    elif KIND == "other-order" and RANK == 2:
        dist.broadcast(data, src=0)
    elif KIND == "other-size" and RANK == 0:
        dist.all_reduce(torch.ones(9, device="npu"))
    elif KIND == "barrier":
        if RANK != 1:
            dist.barrier()
    elif KIND == "subset" and RANK == 3:
        dist.all_reduce(data)
        dist.broadcast(data, src=0)
        time.sleep(FOREVER)
    elif KIND == "send" and RANK == 0:
        dist.send(torch.ones(1 << 20, device="npu"), dst=1)
    elif KIND == "interleaved" and RANK == 1:
        dist.all_reduce(data, group=twin)
        torch.npu.synchronize()
    elif KIND == "slow" and RANK == 2:
        time.sleep(3)


def main() -> None:
    torch.npu.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("hccl")
    data = torch.ones(8, device="npu")
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    twin = dist.new_group([0, 1, 2, 3])
    if KIND == "asleep-first":
        sleep_at(1)
    for step in range(5):
        if step >= 3:
            sys.stderr.write(f"round {step}\n")
            err(data, twin)
        sound(data, pairs[RANK // 2], twin)
    dist.destroy_process_group()


main()
