"""A job that hangs, or is slow: `hanging.py KIND GUILTY FOLDER`, under torchrun on NPUs.

Every step all ranks reduce a tensor and read it. At the third step rank GUILTY does KIND instead;
the comments "hangs: KIND" are where it then stands, or what it calls wrongly. In FOLDER it leaves
a file "reached" before.
"""

from __future__ import annotations

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
from pathlib import Path

import torch
import torch.distributed as dist
import torch_npu  # noqa: F401 - the backend
from torch.utils.data import DataLoader, Dataset

LONG = 1200
FOLDER = Path(sys.argv[3])
# The guilty rank and the next have their own group.
PAIRS: list[dist.ProcessGroup] = []


class Items(Dataset):  # type: ignore[misc]
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        time.sleep(LONG)
        return index


def sleep_long() -> None:
    time.sleep(LONG)


def read_pipe() -> None:
    source, _ = os.pipe()
    os.read(source, 1)  # hangs: pipe


def open_fifo() -> None:
    os.mkfifo(FOLDER / "fifo")
    (FOLDER / "fifo").read_bytes()  # hangs: fifo


def ask_server() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        client.recv(1)  # hangs: server


def run_program() -> None:
    subprocess.run(["sleep", str(LONG)], check=True)  # hangs: program


def lock_file() -> None:
    path = FOLDER / "lock"
    held = path.open("w")
    fcntl.flock(held, fcntl.LOCK_EX)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # hangs: filelock


def lock_thread() -> None:
    lock = threading.Lock()
    lock.acquire()
    with lock:  # hangs: threadlock
        pass


def take_item() -> None:
    queue.Queue().get()  # hangs: queue


def join_thread() -> None:
    thread = threading.Thread(target=sleep_long, daemon=True)
    thread.start()
    thread.join()  # hangs: join


def await_event() -> None:
    threading.Event().wait()  # hangs: event


def poll_file() -> None:
    while not (FOLDER / "never").exists():
        time.sleep(0.5)  # hangs: poll


def count() -> None:
    number = 0
    while number >= 0:
        number += 1  # hangs: busy


def match_text() -> None:
    re.match(r"(a+)+$", "a" * 40 + "b")  # hangs: regex


def stop_self() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)  # hangs: stop


def load_data() -> None:
    next(iter(DataLoader(Items(), num_workers=1)))  # hangs: loader


def pause() -> None:
    signal.pause()  # hangs: pause


def ask_store() -> None:
    store = dist.distributed_c10d._get_default_store()
    store.get("never")  # hangs: store


def use_pool() -> None:
    with multiprocessing.get_context("fork").Pool(1) as pool:
        pool.apply_async(sleep_long).get()  # hangs: pool


def run_loop() -> None:
    asyncio.run(asyncio.sleep(LONG))  # hangs: asyncio


def rest() -> None:
    time.sleep(LONG)  # hangs: sleep


def extra_barrier() -> None:
    dist.barrier(PAIRS[0])  # hangs: barrier


def gather_more() -> None:
    value = torch.ones(4).npu()
    dist.all_gather([torch.empty_like(value) for _ in range(2)], value, PAIRS[0])  # hangs: gather
    value.cpu()


def receive() -> None:
    value = torch.ones(4).npu()
    dist.recv(value, (dist.get_rank() + 1) % dist.get_world_size())  # hangs: receive
    value.cpu()


KINDS = {
    "pipe": read_pipe, "fifo": open_fifo, "server": ask_server, "program": run_program,
    "filelock": lock_file, "threadlock": lock_thread, "queue": take_item, "join": join_thread,
    "event": await_event, "poll": poll_file, "busy": count, "regex": match_text, "stop": stop_self,
    "loader": load_data, "pause": pause, "store": ask_store, "pool": use_pool, "asyncio": run_loop,
    "sleep": rest, "barrier": extra_barrier, "gather": gather_more, "receive": receive,
}  # fmt: skip


def step(number: int) -> float:
    value = torch.full((1024,), float(number)).npu()
    dist.all_reduce(value)
    return float(value.sum().item())


def work(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        torch.ones(64, 64) @ torch.ones(64, 64)


def main() -> None:
    kind, guilty = sys.argv[1], int(sys.argv[2])
    dist.init_process_group("hccl")
    rank = dist.get_rank()
    torch.npu.set_device(int(os.environ["LOCAL_RANK"]))
    PAIRS.append(dist.new_group([guilty, (guilty + 1) % dist.get_world_size()]))
    for number in range(3):
        step(number)
    if rank == guilty:
        (FOLDER / "reached").touch()
    if kind in {"healthy", "slow"}:
        for number in range(LONG):
            work(2.0 if kind == "slow" and rank == guilty else 0.2)
            step(number)
    elif rank == guilty:
        KINDS[kind]()
    step(4)


if __name__ == "__main__":
    main()
