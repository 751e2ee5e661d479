"""Trains LoRA adapters under sequence parallelism, with and without the mark that they need.

Each tensor parallel rank sees a part of the sequence, so gradients of what is not sharded must be
added up. Megatron does that for parameters that are marked ``sequence_parallel``, and for no
others. Three steps each: in plain torch (``whole``), ``marked``, and ``unmarked``.
"""

from __future__ import annotations

import _on_megatron
import _probe
from _layouts import ProbeLayout
from _probe import Probe

MANIFEST = {
    "order": 300,
    "level": 3,
    "seconds": 300,
    "seconds_cpu": 180,
    # From 0.14.0 on Megatron's optimizer gathers objects over all ranks.
    "needs": ["object-collectives"],
    "torchrun": True,
    "does": "LoRA under sequence parallelism, marked and unmarked, against the same without",
    "on_cpu": "with megatron-core",
}

STEPS = 3
LAYOUT = ProbeLayout(tp=2)


def body(probe: Probe) -> None:
    """LoRA under sequence parallelism, marked and unmarked."""
    if probe.world_size % 2:
        probe.skip("sequence parallelism over two ranks needs an even number of ranks")
    _on_megatron.begin(probe)
    tiny = _on_megatron.training(probe)
    for name, marked in (("marked", True), ("unmarked", False)):
        with _on_megatron.under(probe, LAYOUT), probe.stage(f"steps {name}"):
            run = tiny.Training(LAYOUT, probe.torch_device(), experts=0, marked=marked)
            if marked:
                probe.measure("whole", run.against.trace(STEPS)._asdict())
            _on_megatron.record(probe, name, {}, run, STEPS)


if __name__ == "__main__":
    _probe.main(body, name="lora-sequence-parallel")
