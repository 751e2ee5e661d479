"""Computes until the device breaks; every later use has to fail too."""
# ruff: noqa: T201 - the test reads what it prints

import sys

import torch

torch.npu.set_device(0)
try:
    for _ in range(10):
        (torch.ones(4).npu() + 1).cpu()
    torch.npu.synchronize()
except RuntimeError as error:
    print(error)
else:
    sys.exit("nothing broke")
try:
    torch.npu.synchronize()
except RuntimeError:
    print("still broken")
