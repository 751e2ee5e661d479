"""The peak of a real, shrunk training step of megatron.core on one rank, on the CPU.

BF16 weights, Megatron's DistributedDataParallel with FP32 gradients and its distributed optimizer;
collectives only know their members. Counted are the bytes of all storages that are alive, by what
torch dispatches, as an allocator would. Arguments: the folder of the probes. Input: a list of
{model, layout, run}. Answers: bytes before the step, and at the peak of forward and backward.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import sys
import weakref
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import measured_memory as measured  # type: ignore[import-not-found]  # it stands beside this

dist, parallel_state = measured.dist, measured.parallel_state
distributed = importlib.import_module("megatron.core.distributed")
optimizers = importlib.import_module("megatron.core.optimizer")


class Allocator(TorchDispatchMode):  # type: ignore[misc]
    """Bytes of the storages that operators made and that are still alive, and their peak."""

    def __init__(self, sequence: int) -> None:
        super().__init__()
        self.alive: dict[int, int] = {}
        self.now = self.peak = 0
        self.sequence = sequence

    def __torch_dispatch__(self, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor) and not self.is_score(tensor):
                self.take(tensor.untyped_storage())
        return result

    def is_score(self, tensor: torch.Tensor) -> bool:
        """Whether flash attention would not make this tensor, of sequence by sequence."""
        return tensor.dim() >= 2 and tensor.shape[-1] == tensor.shape[-2] == self.sequence

    def take(self, storage: Any) -> None:
        key = storage._cdata
        if key in self.alive or not storage.nbytes():
            return
        self.alive[key] = storage.nbytes()
        self.now += storage.nbytes()
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self.free, key)

    def free(self, key: int) -> None:
        self.now -= self.alive.pop(key, 0)


def in_bf16(settings: Any) -> Any:
    kinds = {name: torch.bfloat16 for name in ("params_dtype", "pipeline_dtype")}
    return dataclasses.replace(settings, bf16=True, perform_initialization=True, **kinds)


_plain = measured.config
measured.config = lambda *arguments: in_bf16(_plain(*arguments))


def trained(model: dict[str, Any], layout: dict[str, int]) -> tuple[Any, Any]:
    """A rank's model in Megatron's wrappers, and its optimizer."""
    bare = measured.built(model, layout, model["layers"]).bfloat16()
    wrapped = distributed.DistributedDataParallel(
        bare.config,
        distributed.DistributedDataParallelConfig(
            grad_reduce_in_fp32=True, overlap_grad_reduce=False, use_distributed_optimizer=True
        ),
        bare,
    )
    options = optimizers.OptimizerConfig(
        optimizer="adam",
        lr=1e-3,
        bf16=True,
        params_dtype=torch.bfloat16,
        use_distributed_optimizer=True,
    )
    return wrapped, optimizers.get_megatron_optimizer(
        options, [wrapped], use_gloo_process_groups=False
    )


def answer(case: dict[str, Any]) -> dict[str, int]:
    model, layout, run = case["model"], case["layout"], case["run"]
    dist.init_process_group("fake", rank=0, world_size=layout["npus"], store=measured.fake.FakeStore())
    parallel_state.initialize_model_parallel(
        tensor_model_parallel_size=layout["tp"],
        expert_model_parallel_size=layout["ep"],
        expert_tensor_parallel_size=layout["etp"] or None,
        create_gloo_process_groups=False,
    )
    measured.random.model_parallel_cuda_manual_seed(1)
    length, batch = run["sequence"], run["micro_batch"]
    tokens = torch.randint(0, 100, (batch, length))
    places = torch.arange(length).expand(batch, -1)
    mask = torch.ones(1, 1, length, length, dtype=torch.bool).triu(1)
    with Allocator(length) as allocator:
        wrapped, optimizer = trained(model, layout)
        # Adam makes its moments in the first step.
        wrapped(tokens, places, mask, labels=tokens).float().mean().backward()
        optimizer.step()
        wrapped.zero_grad_buffer()
        optimizer.zero_grad()
        before = allocator.now
        allocator.peak = allocator.now
        wrapped(tokens, places, mask, labels=tokens).float().mean().backward()
        found = {"before": before, "peak": allocator.peak}
    parallel_state.destroy_model_parallel()
    dist.destroy_process_group()
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps([answer(case) for case in json.load(sys.stdin)]) + "\n")
