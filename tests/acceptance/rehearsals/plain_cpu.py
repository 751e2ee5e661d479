"""Megatron-LM's pretrain_gpt.py on the CPU over gloo, beside which rehearsed losses are held.

usage: plain_cpu.py SCRIPT OPTIONS…, a process a rank, Megatron-LM in PYTHONPATH

Every call of CUDA gets the answer that lets the same code run on CPU tensors, as for our probes.
"""

import functools
import importlib.util
import runpy
import sys
import types
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[3] / "probes"))

import _cuda_on_cpu  # type: ignore[import-not-found]


def average(all_reduce: Any, tensor: Any, op: Any = None, group: Any = None, **more: Any) -> Any:
    """As torch.distributed.all_reduce, with averages, which gloo lacks."""
    import torch.distributed as dist

    if op != dist.ReduceOp.AVG:
        return all_reduce(tensor, dist.ReduceOp.SUM if op is None else op, group, **more)
    tensor /= dist.get_world_size(group)
    return all_reduce(tensor, dist.ReduceOp.SUM, group, **more)


def over_gloo(init_process_group: Any, backend: Any = None, *arguments: Any, **more: Any) -> Any:
    """As torch.distributed.init_process_group; the CPU has no NCCL and no CUDA binding."""
    backend = "gloo" if backend == "nccl" else backend
    more.pop("device_id", None)
    return init_process_group(backend, *arguments, **more)


def answer_training(torch: Any) -> None:
    """What only megatron.training asks CUDA."""
    torch.cuda.device_count = lambda: 1
    # With this architecture Megatron-LM asks for nothing of CUDA's own.
    torch.cuda.get_device_properties = lambda *_: types.SimpleNamespace(
        name="CPU", major=10, minor=0
    )
    for name in ("memory_allocated", "max_memory_allocated", "memory_reserved"):
        setattr(torch.cuda, name, lambda *_: 0)
    torch.cuda.max_memory_reserved = torch.cuda.memory_allocated
    torch.cuda.mem_get_info = lambda *_: (0, 0)
    torch.cuda.FloatTensor, torch.cuda.LongTensor = torch.FloatTensor, torch.LongTensor

    from megatron.core.transformer.moe import moe_utils

    # core_v0.15.3's router wants this name, which only Transformer Engine brings.
    moe_utils.te_general_gemm = None
    torch.distributed.all_reduce = functools.partial(average, torch.distributed.all_reduce)
    torch.distributed.init_process_group = functools.partial(
        over_gloo, torch.distributed.init_process_group
    )
    if not importlib.util.find_spec("megatron.training"):
        return
    from megatron.legacy import fused_kernels
    from megatron.training import training

    fused_kernels.load = lambda _: None
    # It draws numbers on the device, here those that weights are made of.
    training.set_jit_fusion_options = lambda: None
    training.initialize_megatron = functools.partial(
        training.initialize_megatron, allow_no_cuda=True
    )


def prepare() -> None:
    sys.modules["torch_npu"] = None  # type: ignore[assignment]  # accelerate imports it where it is
    import torch

    _cuda_on_cpu.install("cpu", torch)
    _cuda_on_cpu.after_import(torch)
    answer_training(torch)


def main() -> None:
    prepare()
    sys.argv.pop(0)
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
