"""A training run in Megatron's groups that stalls: `stall.py KIND GUILTY STEP LAYOUT [PLACE]`.

Groups and pipeline are megatron-core's own (parallel_state, P2PCommunicator), LAYOUT is as
`tp2-cp1-ep1-pp2`; every step loads a batch, broadcasts it to the tensor group, runs two
micro-batches through the pipeline, reduces gradients and their norm, and writes a checkpoint every
other step. KIND says what the ranks GUILTY (`3`, or `4,5` for a node) do differently at STEP; the
comments "stalls: KIND" are where they then stand, or what they call wrongly. PLACE is where in the
step it happens: when the batch is broadcast (the usual), in a layer's forward or backward, or when
gradients are reduced. Runs under torchrun; in the folder HANG_REACHED every rank that came as far
as STEP leaves a file.
"""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import sys
import threading
import time
import types
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch_npu
from torch.utils.data import DataLoader, Dataset

WAIT = 600  # seconds that the watchdog of torch_npu allows a collective
STEPS = 8
MICRO_BATCHES = 2
FOREVER = 1200
SIZE = 48  # divides by every group's size


class Samples(Dataset):  # type: ignore[misc]
    def __init__(self, blocked: int | None) -> None:
        self.blocked = blocked

    def __len__(self) -> int:
        return STEPS

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == self.blocked:
            time.sleep(FOREVER)  # helper: loader
        return torch.ones(SIZE)


def batches(blocked: int | None) -> Iterator[torch.Tensor]:
    return iter(DataLoader(Samples(blocked), batch_size=1, num_workers=1, prefetch_factor=1))


class Pipe:
    """A file without a reader: writing a checkpoint there waits forever."""

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


def take(lock: threading.Lock, *, held: bool) -> None:
    if held:
        threading.Thread(target=hold, args=(lock,), daemon=True).start()
        time.sleep(0.2)
    with lock:  # stalls: lock
        pass


def hold(lock: threading.Lock) -> None:
    with lock:
        time.sleep(FOREVER)


def import_megatron() -> tuple[Any, Any, Any]:
    """megatron-core's groups and pipeline, without its packages' other imports."""
    spec = importlib.util.find_spec("megatron")
    assert spec
    assert spec.submodule_search_locations
    for name in ("core", "core.pipeline_parallel"):
        package = types.ModuleType(f"megatron.{name}")
        package.__path__ = [os.path.join(*spec.submodule_search_locations, *name.split("."))]
        sys.modules[package.__name__] = package
    # torch_npu.contrib.transfer_to_npu does this, and takes half of the imports' time.
    torch.cuda.current_device = torch_npu.npu.current_device
    torch.cuda.synchronize = torch_npu.npu.synchronize
    from megatron.core import parallel_state
    from megatron.core.model_parallel_config import ModelParallelConfig
    from megatron.core.pipeline_parallel.p2p_communication import P2PCommunicator

    return parallel_state, ModelParallelConfig, P2PCommunicator


class Trainer:
    """One rank's groups and steps; ``now`` is its misbehaviour there."""

    def __init__(self, layout: dict[str, int], point: str) -> None:
        self.point, self.now = point, ""
        self.lock = threading.Lock()
        self.mpu, config, communicator = import_megatron()
        self.mpu.initialize_model_parallel(
            tensor_model_parallel_size=layout["tp"],
            pipeline_model_parallel_size=layout["pp"],
            context_parallel_size=layout["cp"],
            expert_model_parallel_size=layout["ep"],
            expert_tensor_parallel_size=1,
        )
        self.layout = layout
        self.stage = self.mpu.get_pipeline_model_parallel_rank()
        self.pipeline = communicator(
            self.mpu.get_pipeline_model_parallel_group(),
            config(
                tensor_model_parallel_size=layout["tp"],
                pipeline_model_parallel_size=layout["pp"],
                pipeline_dtype=torch.float32,
            ),
        )

    @property
    def is_first(self) -> bool:
        return bool(self.stage == 0)

    @property
    def is_last(self) -> bool:
        return bool(self.stage == self.layout["pp"] - 1)

    def misbehave(self, value: torch.Tensor, point: str) -> bool:
        """Misbehave once at this point; whether it used a wrong group."""
        now = self.now if point == self.point else ""
        self.now = "" if now else self.now
        if now == "sleep":
            time.sleep(FOREVER)  # stalls: sleep
        if now in {"stop", "node"}:
            os.kill(os.getpid(), signal.SIGSTOP)  # stalls: stop
        take(self.lock, held=now == "lock")
        if now == "order":
            dist.all_reduce(value)  # stalls: order
        if now == "group":
            wrong = self.mpu.get_model_parallel_group() if self.layout["pp"] > 1 else None
            dist.all_reduce(value, group=wrong)  # stalls: group
        return now == "group"

    def broadcast(self, value: torch.Tensor) -> None:
        """As megatron.core.tensor_parallel.broadcast_data sends the batch."""
        if self.misbehave(value, "batch"):
            return
        if self.layout["tp"] > 1:
            dist.broadcast(
                value,
                self.mpu.get_tensor_model_parallel_src_rank(),
                group=self.mpu.get_tensor_model_parallel_group(),
            )

    def layer(self, value: torch.Tensor, point: str) -> torch.Tensor:
        wrong = self.misbehave(value, point)
        if self.layout["tp"] > 1 and not wrong:
            dist.all_reduce(value, group=self.mpu.get_tensor_model_parallel_group())
        if self.layout["cp"] > 1:
            group = self.mpu.get_context_parallel_group()
            parts = torch.empty(value.numel() * group.size(), device=value.device)
            dist.all_gather_into_tensor(parts, value.detach().reshape(-1), group=group)
        if self.layout["ep"] > 1:
            tokens = value.detach().reshape(-1).clone()
            group = self.mpu.get_expert_model_parallel_group()
            dist.all_to_all_single(torch.empty_like(tokens), tokens, group=group)
        return value

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        taken = self.pipeline.recv_forward(value.shape, self.is_first)
        return self.layer(value.clone() if taken is None else taken.detach(), "forward")

    def backward(self, value: torch.Tensor, taken: torch.Tensor | None) -> None:
        gradient = self.layer(value.clone() if taken is None else taken.detach(), "backward")
        self.pipeline.send_backward(gradient, self.is_first)

    def run_pipeline(self, value: torch.Tensor, now: str) -> None:
        """One forward, one backward, as in schedules.py without interleaving."""
        shape = value.shape
        ahead = min(self.layout["pp"] - self.stage - 1, MICRO_BATCHES)
        for _ in range(ahead):
            result = self.forward(value)
            if now != "peer":
                self.pipeline.send_forward(result, self.is_last)
        for _ in range(MICRO_BATCHES - ahead):
            result = self.forward(value)
            if now == "peer":
                taken = self.pipeline.recv_backward(shape, self.is_last)
            else:
                taken = self.pipeline.send_forward_recv_backward(result, shape, self.is_last)
            self.backward(value, taken)
        for _ in range(ahead):
            self.backward(value, self.pipeline.recv_backward(shape, self.is_last))

    def finish(self, value: torch.Tensor) -> None:
        """Gradients, their norm, the loss: like finalize_model_grads and the optimizer."""
        mpu = self.mpu
        wrong = self.misbehave(value, "finish")
        data = mpu.get_data_parallel_group(with_context_parallel=True)
        if data.size() > 1 and not wrong:
            dist.all_reduce(value, group=data)
        if self.layout["ep"] > 1 and mpu.get_expert_data_parallel_group().size() > 1:
            dist.all_reduce(value, group=mpu.get_expert_data_parallel_group())
        if self.layout["pp"] > 1 and (self.is_first or self.is_last):
            dist.all_reduce(value, group=mpu.get_embedding_group())
        if mpu.get_model_parallel_group().size() > 1:
            dist.all_reduce(value, group=mpu.get_model_parallel_group())
        torch_npu.npu.synchronize()


def main() -> None:
    kind, at = sys.argv[1], int(sys.argv[3])
    guilty = {int(number) for number in sys.argv[2].split(",")}
    layout = {name: int(size) for name, size in re.findall(r"([a-z]+)(\d+)", sys.argv[4])}
    rank = int(os.environ["RANK"])
    folder = Path(os.environ["HANG_REACHED"])
    torch_npu.npu.set_device(rank)
    dist.init_process_group("hccl", timeout=timedelta(seconds=WAIT))
    trainer = Trainer(layout, sys.argv[5] if len(sys.argv) > 5 else "batch")
    mine = kind if rank in guilty else ""
    loaded = batches(at if mine == "loader" else None)
    for step in range(STEPS):
        if step == at:
            (folder / str(rank)).touch()
        now = mine if step == at else ""
        value = next(loaded).npu()  # stalls: loader
        trainer.now = now
        trainer.broadcast(value)
        trainer.run_pipeline(value, now)
        trainer.finish(value)
        if step % 2 == 0 or now == "checkpoint":
            save(value, folder, rank, blocked=now == "checkpoint")
        dist.barrier()
        sys.stdout.write(f"step {step} of rank {rank}\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
