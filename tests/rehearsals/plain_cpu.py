"""Megatron-LM's pretrain_gpt.py on the CPU over gloo, beside which rehearsed losses are held.

usage: plain_cpu.py SCRIPT OPTIONS…, a process a rank, Megatron-LM in PYTHONPATH and no torch_npu

Every call of CUDA gets the answer that lets the same code run on CPU tensors, as for our probes.
The generator of the device is one of its own, as on an NPU: weights that are made on the CPU are
drawn from the CPU's, whatever the device's was seeded with.
"""

from __future__ import annotations

import functools
import runpy
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[2] / "probes"))

import _cuda_on_cpu  # type: ignore[import-not-found]


def give_generator(torch: Any) -> None:
    """The device's own, which dropout and weights made on the device would draw from."""
    generator = torch.Generator()
    torch.cuda.manual_seed = torch.cuda.manual_seed_all = generator.manual_seed
    torch.cuda.get_rng_state = lambda *_, **__: generator.get_state()
    torch.cuda.set_rng_state = lambda state, *_, **__: generator.set_state(state)

    from megatron.core.tensor_parallel import random

    random._get_cuda_rng_state = torch.cuda.get_rng_state  # noqa: SLF001
    random._set_cuda_rng_state = torch.cuda.set_rng_state  # noqa: SLF001


def answer_training(torch: Any) -> None:
    """What megatron.training asks CUDA, beside what megatron.core does."""
    torch.cuda.device_count = lambda: 1
    for name in ("memory_allocated", "max_memory_allocated", "memory_reserved"):
        setattr(torch.cuda, name, lambda *_: 0)
    torch.cuda.max_memory_reserved = torch.cuda.memory_allocated
    torch.cuda.FloatTensor, torch.cuda.LongTensor = torch.FloatTensor, torch.LongTensor

    from megatron.legacy import fused_kernels
    from megatron.training import training

    fused_kernels.load = lambda _: None
    training.initialize_megatron = functools.partial(
        training.initialize_megatron, allow_no_cuda=True
    )


def main() -> None:
    import torch

    _cuda_on_cpu.install("cpu", torch)
    _cuda_on_cpu.after_import(torch)
    give_generator(torch)
    answer_training(torch)
    sys.argv.pop(0)
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
