"""One thing that each operator fault breaks; prints how each ended.

The crash that breaks the device for good comes last, then what it leaves behind.
"""

# mypy: ignore-errors
# ruff: noqa: FBT003  flags that torch_npu takes by position
# torch is in the interpreter that runs this, not in the one that checks it.

import json
import os
from collections.abc import Callable
from typing import Any

import torch
import torch_npu

NPU = torch.device("npu", 0)


def product() -> None:
    torch.ones(2, 2, device=NPU) @ torch.ones(2, 2, device=NPU)


def softmax() -> None:
    x, mask = torch.randn(1, 1, 32, 32).npu(), torch.zeros(1, 1, 32, 32, dtype=torch.bool).npu()
    torch_npu.npu_scaled_masked_softmax(x, mask, 1.0, False)


def double() -> None:
    torch.ones(2, dtype=torch.float64, device=NPU).add(1)


def anything() -> None:
    torch.ones(2, device=NPU).add(1)


def indexing() -> None:
    x = torch.arange(4, device=NPU)
    x[x > 1] = 0
    torch.npu.synchronize()


def training() -> None:
    layer = torch.nn.Linear(3, 2).npu()
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    for step in range(4):
        loss = layer(torch.ones(4, 3, device=NPU)).sum()
        if not loss.isfinite():
            raise ValueError(f"nan at step {step}")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def other_device() -> None:
    torch.ones(2, device="npu:1").add(1)


STAGES: dict[str, Callable[[], Any]] = {
    "kernel-missing": product,
    "fused-softmax-missing": softmax,
    "double-unsupported": double,
    "operators-fail": anything,
    "nan": training,
    "nonzero-crash": indexing,
    "afterwards": anything,
    "other device": other_device,
}

for name, stage in STAGES.items():
    if name == "nan" and "kernel-missing" in os.environ.get("ASCEND_SIMULATOR_FAULTS", ""):
        continue  # it wants products too
    try:
        stage()
        text = "ok"
    except (RuntimeError, ValueError) as error:
        text = str(error)
    print("FAULT " + json.dumps([name, text]), flush=True)  # noqa: T201
os._exit(0)
