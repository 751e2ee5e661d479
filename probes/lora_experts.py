"""Trains LoRA adapters of experts whose tensors are sharded, and whose tensors are not.

With an expert tensor parallel size (ETP) above 1, the half of an adapter that is not sharded sees
the partial sums of its rank alone, and Megatron reduces its gradient over no group. Three steps
each with ETP 2 and ETP 1, and by how much the adapters differ then between ranks that should hold
the same.
"""

from __future__ import annotations

import _on_megatron
import _probe
from _layouts import ProbeLayout
from _probe import Probe

MANIFEST = {
    "order": 310,
    "level": 3,
    "seconds": 300,
    "seconds_cpu": 180,
    # From 0.14.0 on Megatron's optimizer gathers objects over all ranks.
    "needs": ["object-collectives"],
    "torchrun": True,
    "does": "LoRA on experts with expert tensor parallel size 1 and 2: who drifts",
    "on_cpu": "with megatron-core",
}

STEPS = 3
# With ETP 1 and all experts on every rank, megatron.core 0.12.1 scatters what experts give
# (tensor_parallel/layers.py:1193) and fails: "First dimension of the tensor should be divisible".
LAYOUTS = {"ETP1": ProbeLayout(tp=2, ep=2, etp=1), "ETP2": ProbeLayout(tp=2, etp=2)}


def body(probe: Probe) -> None:
    """LoRA on experts, with their tensors whole and sharded."""
    if probe.world_size % 2:
        probe.skip("expert tensors sharded over two ranks need an even number of ranks")
    _on_megatron.begin(probe)
    tiny = _on_megatron.training(probe)
    for name, layout in LAYOUTS.items():
        with _on_megatron.under(probe, layout), probe.stage(f"steps with {name}"):
            # alltoall gathers pieces of different lengths where ETP is 2, which gloo cannot.
            run = tiny.Training(layout, probe.torch_device(), dispatcher="allgather")
            _on_megatron.record(probe, name, {}, run, STEPS)


if __name__ == "__main__":
    _probe.main(body, name="lora-experts")
