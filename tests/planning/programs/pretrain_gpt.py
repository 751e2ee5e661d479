"""A training with Megatron's options in which only sizes matter: a rank's share of one layer."""

import argparse
import os
import sys

import torch

parser = argparse.ArgumentParser()
for name in ("hidden-size", "micro-batch-size", "exit-interval", "tensor-model-parallel-size"):
    parser.add_argument(f"--{name}", type=int, default=1)
sizes, rest = parser.parse_known_args()
if "--refused" in rest:
    raise AssertionError("refused as Megatron does")
torch.npu.set_device(int(os.environ["LOCAL_RANK"]))
width = sizes.hidden_size // sizes.tensor_model_parallel_size
weight = torch.nn.Linear(sizes.hidden_size, width, bias=False, device="npu")
optimizer = torch.optim.AdamW(weight.parameters())
for _ in range(sizes.exit_interval):
    weight(
        torch.ones(4096 * sizes.micro_batch_size, sizes.hidden_size, device="npu")
    ).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
sys.stdout.write(f"{sizes.exit_interval} steps\n")
