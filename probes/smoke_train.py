"""Trains a tiny GPT of the real megatron.core with experts and LoRA for ten steps.

Run it alone: ``torchrun --nproc-per-node 4 probes/smoke_train.py --device cpu``. The model, the
optimizer (Adam, distributed) and the parallel schedules are Megatron's; weights, data and adapters
are the same on every device and under every layout. Recorded of each layout: loss and gradient norm
of every step, and by how much adapters that must be equal on several ranks differ.
"""

from __future__ import annotations

import time
from typing import Any

import _megatron
import _probe
from _layouts import Layout
from _probe import Probe
from parallel_groups import initialise

STEPS = 10
MOST_EXPERT_RANKS = 4


def layouts(world_size: int) -> tuple[Layout, ...]:
    """Experts with tensor parallelism, and the same with a pipeline.

    The expert tensor parallel size is 1: what is not sharded of an expert's adapter would differ.
    """
    if world_size % 2:
        return (Layout(etp=1),)
    experts = Layout(tp=2, ep=min(max(world_size // 2, 2), MOST_EXPERT_RANKS), etp=1)
    pipeline = Layout(tp=2, pp=2, ep=2, etp=1)
    return tuple(one for one in (experts, pipeline, Layout(pp=2, etp=1)) if one.fits(world_size))[
        :2
    ]


def body(probe: Probe) -> None:
    """Ten training steps with experts and LoRA under several layouts."""
    if not _megatron.installed():
        probe.skip(_megatron.ABSENT)
    torch = probe.torch()
    _megatron.load(probe, torch)
    _megatron.prepare_training(probe, torch)
    probe.join()
    with probe.stage("import the model"):
        from megatron.core import parallel_state
        from megatron.core.transformer.moe import moe_utils

        tiny_gpt = _probe.neighbour("_tiny_gpt")
    found: dict[str, Any] = {}
    for layout in layouts(probe.world_size):
        with _megatron.forgetting(parallel_state, moe_utils):
            with probe.stage(f"groups of {layout.name}"):
                initialise(parallel_state, layout, probe.device)
            with probe.stage(f"model of {layout.name}"):
                training = tiny_gpt.Training(layout, probe.place())
            train(probe, training, layout.name, found)
            parallel_state.destroy_model_parallel()


def train(probe: Probe, training: Any, name: str, found: dict[str, Any]) -> None:
    """Ten steps; what is known so far is recorded after each."""
    one: dict[str, Any] = {"losses": [], "grad_norms": [], "seconds": []}
    found[name] = one
    for number in range(1, STEPS + 1):
        with probe.stage(f"step {number} of {name}"):
            if probe.tampers(probe.stage_name):
                training.poison()
            start = time.monotonic()
            step = training.step()
            one["losses"].append(step.loss)
            one["grad_norms"].append(step.grad_norm)
            one["seconds"].append(time.monotonic() - start)
            probe.measure("layouts", found)
            if probe.alone and training.reports:
                print(f"{name}: step {number} loss {step.loss:.5f} grad norm {step.grad_norm:.4f}")
    with probe.stage(f"adapters of {name}"):
        one["differences"] = training.differences()
        probe.measure("layouts", found)


if __name__ == "__main__":
    _probe.main(body, name="smoke-train")
