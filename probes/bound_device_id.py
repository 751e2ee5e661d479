"""Binds the default group to a device, and then makes a Gloo group, as Megatron does.

init_process_group(device_id=...) binds the default group, new_group hands the binding on, and torch
then asks the new group for a backend of that type of device; Gloo has one for the CPU and CUDA
only. Recorded of a group bound to nothing, to the device, and to nothing again: ``unbound``,
``bound`` and ``cleared``, each "" where it works, else the error. On the CPU the binding is to
``xpu``, another type that Gloo does not know.
"""

from __future__ import annotations

from typing import Any

import _probe
from _probe import Probe

MANIFEST = {
    "order": 220,
    "level": 3,
    "seconds": 300,
    "seconds_cpu": 90,
    "needs": ["allreduce"],
    "torchrun": True,
    "does": (
        "Gloo groups beside a default group that is bound to nothing, to the device, to nothing "
        "again"
    ),
    "on_cpu": "bound to a type of device that Gloo does not know",
}


def body(probe: Probe) -> None:
    """Gloo groups beside a default group that is bound to a device."""
    torch = probe.torch()
    dist = probe.join()
    default = dist.distributed_c10d._get_default_group()  # noqa: SLF001 - torch has no other
    before = getattr(default, "bound_device_id", None)
    probe.measure("binding", str(before or ""))
    device_name = "xpu:0" if probe.device == "cpu" else probe.torch_device()
    probe.measure("bound_to", device_name)
    try:
        for name, binding in (
            ("unbound", None),
            ("bound", torch.device(device_name)),
            ("cleared", None),
        ):
            default.bound_device_id = binding
            with probe.stage(name):
                probe.measure(name, outcome(probe, torch, dist))
    finally:
        default.bound_device_id = before


def outcome(probe: Probe, torch: Any, dist: Any) -> str:
    """The error of making a Gloo group of all ranks and adding up in it, "" where there is none."""
    try:
        group = dist.new_group(backend="gloo")
        tensor = torch.full((1,), float(probe.rank + 1), device="cpu")
        if probe.tampers(probe.stage_name):
            tensor += 1
        dist.all_reduce(tensor, group=group)
    except RuntimeError as error:
        return _probe.innermost(error)
    expected = float(sum(range(1, probe.world_size + 1)))
    probe.expect(f"sum in a Gloo group, {probe.stage_name}", tensor.item(), expected)
    return ""


if __name__ == "__main__":
    _probe.main(body, name="bound-device-id")
