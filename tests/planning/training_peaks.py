"""Two steps of Megatron-LM's pretrain_gpt.py, with the peaks of each rank's device memory.

ascend-doctor rehearse --memory 8 --npus 2 -- torchrun --nproc-per-node 2
    tests/planning/training_peaks.py MEGATRON_LM/pretrain_gpt.py OPTIONS
gave simulated_peaks.yaml, with Megatron-LM and MindSpeed on PYTHONPATH.
"""

from __future__ import annotations

import os
import runpy
import sys
from typing import Any

import mindspeed.megatron_adaptor  # type: ignore[import-not-found] # noqa: F401
import torch
from megatron.training import training

_train_step = training.train_step
_allocator = torch.npu


def train_step(*arguments: Any, **options: Any) -> Any:
    _allocator.reset_peak_memory_stats()
    result = _train_step(*arguments, **options)
    peak, held = _allocator.max_memory_allocated(), _allocator.max_memory_reserved()
    print(f"\nrank {os.environ['RANK']} peak {peak} reserved {held}", flush=True)  # noqa: T201
    return result


if __name__ == "__main__":
    training.train_step = train_step
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")
