"""Faults that a run may have, each with the module and the direction that it has to be found at.

Drawn by a seed from kinds and modules; the label follows from what is broken, not from a run.
"""

from __future__ import annotations

import os
import random
from typing import NamedTuple

# Another one draws other faults, with their labels.
SEED = int(os.environ.get("ASCEND_DOCTOR_TEST_SEED", "20261123"))
FAULTS = 30
HEALTHY = 15


class Variant(NamedTuple):
    """A healthy job."""

    dtype: str
    hidden: int
    seed: int

    @property
    def name(self) -> str:
        return f"{self.dtype}-{self.hidden}-{self.seed}"


class Fault(NamedTuple):
    """What is broken in a job; ``amount`` is how much. The label is the last two."""

    number: int
    variant: Variant
    kind: str
    target: str
    amount: float
    module: str
    directions: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.number:02}-{self.kind}"


class Job(NamedTuple):
    """Modules of a job that can have a fault of a kind."""

    linears: tuple[str, ...]
    squares: tuple[str, ...]
    modules: tuple[str, ...]
    attentions: tuple[str, ...]
    gated: tuple[str, ...]
    buffers: tuple[str, ...]


DDP = Job(
    linears=("Model.blocks.0.up", "Model.blocks.1.down", "Model.head"),
    squares=("Model.blocks.0.mix", "Model.blocks.1.mix"),
    modules=("Model.embed", "Model.blocks.0.norm", "Model.blocks.1.up", "Model.blocks.0.down"),
    attentions=("Model.blocks.0.attention", "Model.blocks.1.attention"),
    gated=("Model.blocks.0", "Model.blocks.1"),
    buffers=("Model.blocks.0.average", "Model.blocks.1.average"),
)
_LAYERS = ("GPTModel.decoder.layers.0", "GPTModel.decoder.layers.1")
MEGATRON = Job(
    linears=(f"{_LAYERS[0]}.mlp.linear_fc1", f"{_LAYERS[1]}.mlp.linear_fc2"),
    squares=(f"{_LAYERS[0]}.mlp.linear_fc2", f"{_LAYERS[1]}.mlp.linear_fc2"),
    modules=(
        "GPTModel.embedding.word_embeddings",
        f"{_LAYERS[0]}.input_layernorm",
        f"{_LAYERS[1]}.self_attention.linear_qkv",
        f"{_LAYERS[0]}.self_attention.linear_proj",
        "GPTModel.decoder.final_layernorm",
    ),
    attentions=tuple(f"{layer}.self_attention.core_attention" for layer in _LAYERS),
    gated=tuple(f"{layer}.mlp" for layer in _LAYERS),
    buffers=(),
)
_EXPERTS = tuple(f"{layer}.mlp.experts.local_experts" for layer in _LAYERS)
# Two experts a rank; each rank has its own data.
EXPERTS = Job(
    linears=(
        f"{_EXPERTS[0]}.0.linear_fc1",
        f"{_EXPERTS[1]}.1.linear_fc2",
        f"{_LAYERS[1]}.self_attention.linear_proj",
    ),
    squares=(f"{_EXPERTS[0]}.1.linear_fc2", f"{_EXPERTS[1]}.0.linear_fc2"),
    modules=(
        "GPTModel.embedding.word_embeddings",
        f"{_LAYERS[0]}.input_layernorm",
        f"{_LAYERS[1]}.self_attention.linear_qkv",
        f"{_LAYERS[0]}.mlp.router",
        f"{_EXPERTS[1]}.0.linear_fc2",
        "GPTModel.decoder.final_layernorm",
    ),
    attentions=tuple(f"{layer}.self_attention.core_attention" for layer in _LAYERS),
    gated=(f"{_EXPERTS[0]}.0", f"{_EXPERTS[1]}.1"),
    buffers=(),
)
JOBS = {"ddp": DDP, "megatron": MEGATRON, "experts": EXPERTS}
# Megatron-LM's pretrain_gpt.py under TP2, with MindSpeed's modules on NPUs and its own on the CPU.
# Options are those beside megatron_jobs.MODEL.
UPSTREAM = "pretrain"
UPSTREAM_OPTIONS = (
    "--swiglu --no-bias-swiglu-fusion --position-embedding-type rope --tensor-model-parallel-size 2"
)
_FORWARD, _BACKWARD, _OPTIMIZER = ("forward",), ("backward",), ("optimizer",)
_GRADIENT = ("backward", "optimizer")


def variants(job: str) -> list[Variant]:
    draw = random.Random(f"{SEED} {job} healthy")
    widths = (32, 64) if job == "ddp" else (64, 128)
    return [
        Variant(draw.choice(("float32", "bfloat16")), draw.choice(widths), draw.randrange(10_000))
        for _ in range(HEALTHY if job in JOBS else HEALTHY // 3)
    ]


def faults(job: str) -> list[Fault]:
    draw = random.Random(f"{SEED} {job} faults")
    healthy = variants(job)
    parts = {**JOBS, UPSTREAM: MEGATRON}[job]
    kinds = [
        ("operator-value", parts.modules, _FORWARD),
        ("operator-row", parts.linears, _FORWARD),
        ("transposed-weight", parts.squares, ("before the first step",)),
        ("transposed-product", parts.squares, _FORWARD),
        ("lost-gradient", parts.linears, (*_FORWARD, *_BACKWARD)),
        ("zero-gradient", parts.linears, _GRADIENT),
        ("scaled-backward", parts.modules[1:], _BACKWARD),
        ("mask", parts.attentions, _FORWARD),
        ("wrong-group", parts.linears, _OPTIMIZER),
        ("half-precision", parts.modules, _FORWARD),
        ("gate-up-order", parts.gated, _FORWARD),
        ("gate-up-weight", tuple(f"{name}.{_up(job)}" for name in parts.gated), _WEIGHT),
        ("dropped-state", parts.linears, _OPTIMIZER),
        ("stale-buffer", parts.buffers, _FORWARD),
    ]
    kinds = [kind for kind in kinds if kind[1]]
    rows = []
    for number in range(FAULTS if job in JOBS else FAULTS // 2):
        kind, targets, directions = kinds[number % len(kinds)]
        target = draw.choice(targets)
        fault = Fault(
            number=number,
            variant=draw.choice(healthy),
            kind=kind,
            target=target,
            amount=draw.choice((0.2, 0.5, -1.0)),
            module=target,
            directions=directions,
        )
        rows.append(fault)
    return rows


_WEIGHT = ("before the first step",)


def _up(job: str) -> str:
    return "up" if job == "ddp" else "linear_fc1"
