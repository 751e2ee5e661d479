"""Runs a script whose adapters begin with the same numbers on every device.

usage: same_start.py SCRIPT OPTIONS…

LoRA draws its first matrix on the device, and two devices draw other numbers. Here it is drawn on
the CPU, by its shape alone, the same on each rank.
"""

from __future__ import annotations

import math
import runpy
import sys
from typing import Any

import torch
from torch.nn import init

on_device = init.kaiming_uniform_


def kaiming_uniform_(tensor: torch.Tensor, *arguments: Any, **options: Any) -> torch.Tensor:
    shape = tuple(tensor.shape)
    numbers = torch.zeros(shape)
    generator = torch.Generator().manual_seed(math.prod(shape) + shape[0])
    on_device(numbers, *arguments, **{**options, "generator": generator})
    with torch.no_grad():
        return tensor.copy_(numbers)


if __name__ == "__main__":
    init.kaiming_uniform_ = kaiming_uniform_
    sys.argv.pop(0)
    runpy.run_path(sys.argv[0], run_name="__main__")
