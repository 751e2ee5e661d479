"""Holds 600 MiB of device 0 until the standard input ends."""
# ruff: noqa: T201 - the test reads what it prints

import sys

import torch

block = torch.empty(600 << 20, dtype=torch.uint8, device="npu:0")
print("held", flush=True)
sys.stdin.read()
