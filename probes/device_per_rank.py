"""Records which device each rank drives, and uses it.

Recorded of each rank: ``variable``, the list of visible devices in its environment (None where it
is not set), ``started_with``, the same when the process began, ``index``, the current device, and
``identity``, what the driver calls it where the backend tells. On the CPU ranks have no devices of
their own.
"""

from __future__ import annotations

import os
from typing import Any

import _probe
from _probe import Probe

MANIFEST = {
    "order": 190,
    "level": 3,
    "seconds": 300,
    "seconds_cpu": 90,
    "needs": ["pair-rounds"],
    "torchrun": True,
    "does": "which device each rank drives, by identifier or place in the visible list",
    "on_cpu": "skipped: ranks have no devices of their own",
}

VARIABLES = {"npu": "ASCEND_RT_VISIBLE_DEVICES", "cuda": "CUDA_VISIBLE_DEVICES"}


def body(probe: Probe) -> None:
    """Which device each rank drives."""
    if probe.device == "cpu":
        probe.skip("ranks on the CPU have no devices of their own")
    torch = probe.torch()
    variable = VARIABLES[probe.device]
    accelerator = getattr(torch, probe.device)
    with probe.stage("whose"):
        probe.measure("variable", os.environ.get(variable))
        probe.measure("started_with", initial(variable))
        probe.measure("index", accelerator.current_device())
        probe.measure("identity", identity(accelerator))
    with probe.stage("use"):
        tensor = torch.full((1,), float(probe.rank), device=probe.device)
        probe.synchronise(torch)
        probe.expect("device of a new tensor", tensor.device.index, probe.local_rank)
        probe.expect("value of a new tensor", tensor.item(), float(probe.rank))


def initial(name: str) -> str | None:
    """A variable as the process got it; torch_npu does not look again after its import."""
    with open("/proc/self/environ", "rb") as file:
        for line in file.read().split(b"\0"):
            key, _, value = line.partition(b"=")
            if key.decode(errors="replace") == name:
                return value.decode(errors="replace")
    return None


def identity(accelerator: Any) -> str:
    """The identifier of the current device, "" where there is none or only zeros."""
    uuid = getattr(accelerator.get_device_properties(accelerator.current_device()), "uuid", None)
    text = str(uuid or "")
    # Zeros would be the same device for every rank.
    return text if text.strip("0-") else ""


if __name__ == "__main__":
    _probe.main(body, name="device-per-rank")
