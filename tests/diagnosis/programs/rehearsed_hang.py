"""Four ranks that sum, broadcast and sum again in each of five rounds; in round 3 a rank errs.

The first argument is what it does. Every round before is sound: 1 + 3 collectives each.
"""

import asyncio
import fcntl
import multiprocessing
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import torch
import torch.distributed as dist
import torch_npu  # noqa: F401 - brings the NPU
from torch.utils.data import DataLoader

KIND = sys.argv[1]
RANK = int(os.environ["RANK"])
FOREVER = 3600


def sleep() -> None:
    time.sleep(FOREVER)


def spin() -> None:
    while True:
        pass


def wait_for_lock() -> None:
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def wait_for_writer() -> None:
    os.mkfifo("pipe")
    os.open("pipe", os.O_RDONLY)


def lock_file_twice() -> None:
    for file in (open("lock", "w"), open("lock")):  # noqa: SIM115 - both stay open
        fcntl.flock(file, fcntl.LOCK_EX)


def join_thread() -> None:
    thread = threading.Thread(target=sleep, daemon=True)
    thread.start()
    thread.join()


def poll_file() -> None:
    while not os.path.exists("never"):
        time.sleep(0.5)


def use_pool() -> None:
    with multiprocessing.get_context("fork").Pool(1) as pool:
        pool.apply_async(sleep).get()


def load_data() -> None:
    next(iter(DataLoader([1], num_workers=1, collate_fn=lambda _: sleep())))


def raise_error(error: BaseException) -> None:
    raise error


# A rank does this instead of its collectives.
INSTEAD = {
    "asleep": (2, sleep),
    "timeout": (2, sleep),
    "interrupted": (2, sleep),
    "dead": (3, lambda: os.kill(os.getpid(), signal.SIGKILL)),
    "stopped": (0, lambda: os.kill(os.getpid(), signal.SIGSTOP)),
    "exception": (2, lambda: raise_error(ValueError("a bad sample"))),
    "fewer": (3, lambda: os._exit(0)),
    "slow": (2, lambda: time.sleep(3)),
    "lock": (2, wait_for_lock),
    "queue": (1, lambda: queue.Queue().get()),
    "busy": (0, spin),
    "writer": (3, wait_for_writer),
    "socket": (1, lambda: socket.create_server(("127.0.0.1", 0)).accept()),
    "child": (2, lambda: subprocess.run(["sleep", str(FOREVER)], check=True)),
    "crash": (1, lambda: os.kill(os.getpid(), signal.SIGSEGV)),
    "abort": (0, os.abort),
    "exit": (2, lambda: sys.exit(3)),
    "memory": (3, lambda: raise_error(MemoryError("no more"))),
    "pipe": (3, lambda: os.read(os.pipe()[0], 1)),
    "filelock": (1, lock_file_twice),
    "join": (2, join_thread),
    "event": (3, lambda: threading.Event().wait()),
    "poll": (0, poll_file),
    "regex": (1, lambda: re.match(r"(a+)+$", "a" * 40 + "b")),
    "loader": (2, load_data),
    "pause": (3, signal.pause),
    "store": (1, lambda: dist.distributed_c10d._get_default_store().get("never")),
    "pool": (2, use_pool),
    "asyncio": (0, lambda: asyncio.run(asyncio.sleep(FOREVER))),
}


def sound(data: torch.Tensor, pair: dist.ProcessGroup, twin: dist.ProcessGroup) -> None:
    dist.all_reduce(data)
    dist.broadcast(data, src=0)
    dist.all_reduce(data, group=pair)
    dist.all_reduce(data, group=twin)
    torch.npu.synchronize()


def err(data: torch.Tensor, twin: dist.ProcessGroup) -> None:  # noqa: C901, PLR0912 - a table of mistakes
    rank, act = INSTEAD.get(KIND, (None, sleep))
    if rank == RANK:
        act()
    elif KIND == "other-collective" and RANK == 1:
        dist.all_gather([torch.empty_like(data) for _ in range(4)], data)
    elif KIND == "other-order" and RANK == 2:
        dist.broadcast(data, src=0)
    elif KIND == "other-root" and RANK == 1:
        dist.broadcast(data, src=1)
    elif KIND == "other-size" and RANK == 0:
        dist.all_reduce(torch.ones(9, device="npu"))
    elif KIND == "other-type" and RANK == 3:
        dist.all_reduce(data.half())
    elif KIND == "reduce" and RANK == 2:
        dist.reduce(data, dst=0)
    elif KIND == "barrier":
        if RANK != 1:
            dist.barrier()
    elif KIND == "asleep-second" and RANK == 1:
        dist.all_reduce(data)
        sleep()
    elif KIND == "subset" and RANK == 3:
        dist.all_reduce(data)
        dist.broadcast(data, src=0)
        sleep()
    elif KIND == "send" and RANK == 0:
        dist.send(torch.ones(1 << 20, device="npu"), dst=1)
    elif KIND == "interleaved" and RANK == 1:
        dist.all_reduce(data, group=twin)
        torch.npu.synchronize()


def main() -> None:
    torch.npu.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("hccl")
    data = torch.ones(8, device="npu")
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    twin = dist.new_group([0, 1, 2, 3])
    if KIND == "asleep-first" and RANK == 1:
        sleep()
    for step in range(5):
        if step >= 3:
            sys.stderr.write(f"round {step}\n")
            err(data, twin)
        sound(data, pairs[RANK // 2], twin)
    dist.destroy_process_group()


main()
