"""Trains a tiny GPT of the real megatron.core with experts and LoRA for ten steps.

The model, the optimizer (Adam, distributed) and the parallel schedules are Megatron's; weights,
data and adapters are the same on every device and under every layout. Recorded of each layout:
loss, gradient norm and learning rate of every step, where its forward passes first met a number
that is not finite, and by how much adapters that must be equal on several ranks differ. After eight
steps everything is saved; at the end fresh processes load it, evaluate it, and take the last two
steps again. Trainings in bfloat16, with flash attention, grouped matrix products and context
parallelism, take three steps and save nothing.
"""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import _on_megatron
import _probe
import _resumed
from _layouts import ProbeLayout
from _probe import Probe

MANIFEST = {
    "order": 330,
    "level": 3,
    "seconds": 900,
    "seconds_cpu": 240,
    # From 0.14.0 on Megatron's optimizer gathers objects over all ranks.
    "needs": ["object-collectives"],
    "torchrun": True,
    "does": (
        "ten training steps of a tiny GPT of the real megatron.core, against the same in plain "
        "torch: adapters on experts, all weights in a pipeline, all weights with data parallelism, "
        "the layout of `--tp --pp --cp --ep --etp`, and three steps of all weights in bfloat16 "
        "with flash attention and grouped matrix products, once with context parallelism; where a "
        "number that is not finite began; checkpoints that fresh processes load, evaluate and go "
        "on from"
    ),
    "on_cpu": "with megatron-core",
}

STEPS = 10
# So many of the steps are taken again by fresh processes.
AGAIN = 2
# In bfloat16: a second one shows what the optimizer wrote, a third one its moments.
FEW = 3
# The tiny model has four experts.
MOST_EXPERT_RANKS = 4
# As `_reference` has them, which needs torch and is imported later.
HIDDEN = 64
SEQUENCE = 32


class TrainingCase(NamedTuple):
    """A layout and what differs from the usual model under it."""

    layout: ProbeLayout
    kind: dict[str, Any]

    @property
    def bf16(self) -> bool:
        return bool(self.kind.get("bf16"))

    @property
    def name(self) -> str:
        return f"{'bfloat16 ' if self.bf16 else ''}{self.layout.name}"


ALONE = {"experts": 0, "adapters": False}
TIED = {"adapters": False, "tied": True}
BF16 = {"adapters": False, "bf16": True}


def trainings(world_size: int) -> list[TrainingCase]:
    """Adapters with experts, a pipeline, data parallelism, and what runs in bfloat16.

    The expert tensor parallel size is 1: what is not sharded of an expert's adapter would differ.
    """
    if world_size % 2:
        whole = ProbeLayout(etp=1)
        return [
            TrainingCase(whole, {}),
            TrainingCase(ProbeLayout(), ALONE),
            TrainingCase(whole, BF16),
        ]
    experts = ProbeLayout(tp=2, ep=min(max(world_size // 2, 2), MOST_EXPERT_RANKS), etp=1)
    pipeline = (
        ProbeLayout(tp=2, pp=2, ep=2, etp=1) if world_size % 4 == 0 else ProbeLayout(pp=2, etp=1)
    )
    context = ProbeLayout(tp=2 if world_size % 4 == 0 else 1, ep=2, cp=2, etp=1)
    several = [
        TrainingCase(experts, {}),
        TrainingCase(pipeline, TIED),
        TrainingCase(ProbeLayout(), ALONE),
        TrainingCase(experts, BF16),
        TrainingCase(context, BF16),
    ]
    return [training for training in several if training.layout.fits(world_size)]


def read_request(probe: Probe) -> list[TrainingCase]:
    """The layout that the user asks for, where it can be trained here; else the reason is kept."""
    if not probe.asked:
        return []
    layout = ProbeLayout(**{"etp": 1, **probe.asked})
    reason = ""
    if not layout.fits(probe.world_size):
        reason = f"it does not fit {probe.world_size} ranks"
    elif SEQUENCE % (layout.tp * (2 * layout.cp if layout.cp > 1 else 1)):
        reason = f"the tiny model's sequences have {SEQUENCE} tokens"
    elif HIDDEN % max(layout.tp, layout.expert_tensor):
        reason = f"the tiny model is {HIDDEN} wide"
    elif layout.cp > 1:
        reason = _probe.neighbour("_fused").missing(probe.device)
    if reason:
        probe.measure("left_out", {layout.name: reason})
        return []
    # Megatron's own attention knows no context parallelism.
    return [TrainingCase(layout, BF16 if layout.cp > 1 else {})]


def fit(layout: ProbeLayout, kind: Mapping[str, Any], device: str) -> dict[str, Any]:
    """The tiny model, or a larger one where the layout takes more layers, experts or heads.

    gloo cannot gather pieces of different lengths, as alltoall wants with expert tensors sharded.
    """
    sizes: dict[str, Any] = {
        "layers": -(-2 // layout.pp) * layout.pp,
        "experts": -(-4 // layout.ep) * layout.ep,
        "groups": -(-2 // layout.tp) * layout.tp,
        **kind,
    }
    if device == "cpu" and layout.expert_tensor > 1:
        sizes["dispatcher"] = "allgather"
    return sizes


def body(probe: Probe) -> None:
    """Ten training steps under several layouts, against plain torch, and a resumption."""
    _on_megatron.begin(probe)
    tiny = _on_megatron.training(probe)
    checkpoints = _probe.neighbour("_checkpoints")
    layouts: dict[str, Any] = {}
    saved: dict[str, _resumed.Saved] = {}
    with probe.stage("flags of the data"):
        share_flags(probe)
    with tempfile.TemporaryDirectory(prefix="ascend-doctor-") as own:
        with probe.stage("folder of checkpoints"):
            shared = checkpoints.shared_folder(own)
        for training in choose(probe):
            name, layout = training.name, training.layout
            kind = fit(layout, training.kind, probe.device)
            with _on_megatron.under(probe, layout):
                with probe.stage(f"model of {name}"):
                    run = tiny.Training(layout, probe.torch_device(), **kind)
                whole = shared is not None and not run.kind.adapters
                path = os.path.join(str(shared) if whole else own, name)
                train(probe, run, name, path, layouts, checkpoints if whole else None)
            if training.bf16:
                continue
            failed = layouts[name]["saved"].get("failed")
            saved[name] = (layout, kind, path, whole and [*failed])
        with probe.stage("resume in fresh processes"):
            probe.measure("resumed", _resumed.start(probe, own, STEPS - AGAIN, AGAIN, saved))
            # The folder is gone when rank 0 has ended.
            checkpoints.meet()


def share_flags(probe: Probe) -> None:
    """Which data there is, as Megatron's training shares it before its first step.

    torch asks the device's capability in every broadcast from 2.13 on.
    """
    import torch
    import torch.distributed as dist

    dist.broadcast(torch.ones(3, dtype=torch.long, device=probe.torch_device()), 0)


def choose(probe: Probe) -> list[TrainingCase]:
    """What is asked for first, then the usual ones, as far as there is what they take."""
    first = read_request(probe)
    names = {training.name for training in first}
    several = [
        *first,
        *(training for training in trainings(probe.world_size) if training.name not in names),
    ]
    reason = _probe.neighbour("_fused").missing(probe.device)
    if reason:
        probe.measure("not_run", {training.name: reason for training in several if training.bf16})
    return [training for training in several if not (reason and training.bf16)]


def train(
    probe: Probe, run: Any, name: str, path: str, layouts: dict[str, Any], checkpoints: Any
) -> None:
    """All steps; what is known so far is recorded after each."""
    steps = FEW if run.kind.bf16 else STEPS
    record: dict[str, Any] = {"losses": [], "grad_norms": [], "learning_rates": [], "seconds": []}
    record |= {"kind": run.kind._asdict(), **run.sizes, "dtypes": run.dtypes}
    if run.kind.bf16:
        record["kernels"] = _probe.neighbour("_fused").kernels(run.config, probe.device)
    record |= {"place": probe.torch_device(), "stage": run.stage, "not_finite": [], "steps": steps}
    layouts[name] = record
    globally = _probe.neighbour("_tiny_gpt").globally
    watch = _probe.neighbour("_not_finite").Watch(run.bare, lambda part: globally(part, run.config))
    with probe.stage(f"reference of {name}"):
        trace = _probe.neighbour("_checkpoints").share(lambda: run.against.trace(steps))
        record["reference"] = trace._asdict()
    for number in range(1, steps + 1):
        if number == STEPS - AGAIN + 1 and not run.kind.bf16:
            with probe.stage(f"checkpoint of {name}"):
                save(probe, run, path, record, checkpoints)
        with probe.stage(f"step {number} of {name}"):
            if probe.tampers(probe.stage_name):
                run.poison()
            start = time.monotonic()
            with watch:
                step = run.step(record.__setitem__ if number == 1 else None)
            met = watch.first()
            record["losses"].append(step.loss)
            record["grad_norms"].append(step.grad_norm)
            record["learning_rates"].append(run.learning_rate)
            record["not_finite"].append(met and met._asdict())
            record["seconds"].append(time.monotonic() - start)
            if run.reports:
                show(probe, f"{name}: step {number}", step, record)
            probe.measure("layouts", layouts)
    with probe.stage(f"weights of {name}"):
        record["differences"] = run.differences()
        record["mistakes"] = run.against.mistakes_of(record["losses"], trace)
        probe.measure("layouts", layouts)


def show(probe: Probe, what: str, step: Any, record: dict[str, Any]) -> None:
    """Print a step by hand; keep the first one that is not finite, in the words of trainers.

    Their logs are searched for such words.
    """
    metrics = {"loss": round(step.loss, 5), "grad_norm": round(step.grad_norm, 4)}
    line = f"{what} {metrics | {'learning_rate': record['learning_rates'][-1]}}"
    if probe.alone:
        print(f"{line} {1000 * record['seconds'][-1]:.0f} ms")
    if not math.isfinite(step.grad_norm):
        record.setdefault("output", line)


def save(probe: Probe, run: Any, path: str, record: dict[str, Any], checkpoints: Any) -> None:
    """Write a checkpoint, and record what it must give when it is loaded.

    All weights are saved as Megatron does, adapters a file a rank as their trainers do.
    """
    record["saved"] = {"digest": run.digest(), "evaluated": run.evaluate()}
    if probe.tampers(probe.stage_name):
        run.flip()
    if checkpoints:
        record["saved"]["failed"] = checkpoints.save(run, path)
    else:
        run.save(path)
    if probe.tampers(probe.stage_name):
        run.flip()


if __name__ == "__main__":
    _probe.main(body, name="smoke-train")
