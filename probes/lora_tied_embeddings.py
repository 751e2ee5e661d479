"""Trains LoRA adapters in a pipeline whose output shares the weight of the embedding.

The shared weight is frozen and has no gradient. Its first and last stage add up that gradient all
the same, and up to 0.12.3 megatron.core hands None to the all-reduce. Three steps each: in plain
torch (``whole``), in a pipeline (``pipeline``), and, should that fail, with that one function left
out (``mended``): there is nothing to add up.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any

import _on_megatron
import _probe
from _layouts import ProbeLayout
from _probe import Probe

MANIFEST = {
    "order": 290,
    "level": 3,
    "seconds": 300,
    "seconds_cpu": 180,
    # From 0.14.0 on Megatron's optimizer gathers objects over all ranks.
    "needs": ["object-collectives"],
    "torchrun": True,
    "does": "LoRA in a pipeline with tied embeddings against the same without a pipeline",
    "on_cpu": "with megatron-core",
}

STEPS = 3
PIPELINE = ProbeLayout(pp=2)


def body(probe: Probe) -> None:
    """LoRA with tied embeddings in a pipeline."""
    if probe.world_size % 2:
        probe.skip("a pipeline of two stages needs an even number of ranks")
    _on_megatron.begin(probe)
    tiny = _on_megatron.training(probe)
    try:
        steps(probe, tiny, "pipeline")
    except TypeError as error:
        # Every rank is a first or a last stage, and fails here before it sends anything.
        probe.measure("error", _probe.innermost(error))
        with without_sum():
            steps(probe, tiny, "mended")


def steps(probe: Probe, tiny: Any, name: str) -> None:
    with _on_megatron.under(probe, PIPELINE), probe.stage(f"steps {name}"):
        run = tiny.Training(PIPELINE, probe.torch_device(), experts=0, tied=True)
        probe.measure("whole", run.against.trace(STEPS)._asdict())
        _on_megatron.record(probe, name, {}, run, STEPS)


@contextlib.contextmanager
def without_sum() -> Iterator[None]:
    """Nobody adds up gradients of the shared weight."""
    module = importlib.import_module("megatron.core.distributed.finalize_model_grads")
    name = "_allreduce_word_embedding_grads"
    before = getattr(module, name)
    setattr(module, name, lambda *_, **__: None)
    try:
        yield
    finally:
        setattr(module, name, before)


if __name__ == "__main__":
    _probe.main(body, name="lora-tied-embeddings")
