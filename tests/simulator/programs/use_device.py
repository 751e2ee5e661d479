"""Selects the device of the argument and computes on it."""
# ruff: noqa: T201 - the test reads what it prints

import sys

import torch

torch.npu.set_device(int(sys.argv[1]))
print((torch.ones(3).npu() + 1).sum().item(), torch.npu.current_device())
