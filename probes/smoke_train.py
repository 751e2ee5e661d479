"""Trains a tiny GPT of the real megatron.core with experts and LoRA for ten steps.

Run it alone: ``torchrun --nproc-per-node 4 probes/smoke_train.py --device cpu``. The model, the
optimizer (Adam, distributed) and the parallel schedules are Megatron's; weights, data and adapters
are the same on every device and under every layout. Recorded of each layout: loss, gradient norm
and learning rate of every step, where its forward passes first met a number that is not finite,
and by how much adapters that must be equal on several ranks differ. After eight steps everything
is saved; at the end fresh processes load it, evaluate it, and take the last two steps again.
"""

from __future__ import annotations

import math
import os
import tempfile
import time
from typing import Any

import _on_megatron
import _probe
import _resumed
from _layouts import Layout
from _probe import Probe

STEPS = 10
AGAIN = 2
MOST_EXPERT_RANKS = 4
MANY_RANKS = 8
HIDDEN = 64


def layouts(world_size: int) -> tuple[Layout, ...]:
    """Experts with tensor parallelism, and with a pipeline; with many ranks the pipeline alone.

    The expert tensor parallel size is 1: what is not sharded of an expert's adapter would differ.
    """
    if world_size % 2:
        return (Layout(etp=1),)
    experts = Layout(tp=2, ep=min(max(world_size // 2, 2), MOST_EXPERT_RANKS), etp=1)
    pipeline = Layout(tp=2, pp=2, ep=2, etp=1)
    last = Layout(pp=2, etp=1) if world_size < MANY_RANKS else Layout(tp=2, pp=2, etp=1)
    fitting = [one for one in (experts, pipeline, last) if one.fits(world_size)]
    return tuple(fitting if world_size >= MANY_RANKS else fitting[:2])


def asked(probe: Probe) -> tuple[Layout, ...]:
    """The layout that the user asks for, where it can be trained here; else the reason is kept."""
    if not probe.asked:
        return ()
    layout = Layout(**{"etp": 1, **probe.asked})
    reason = ""
    if not layout.fits(probe.world_size):
        reason = f"it does not fit {probe.world_size} ranks"
    elif layout.cp > 1:
        reason = "the attention of a plain megatron.core knows no context parallelism"
    elif HIDDEN % max(layout.tp, layout.expert_tensor):
        reason = f"the tiny model is {HIDDEN} wide"
    if reason:
        probe.measure("left_out", {layout.name: reason})
        return ()
    return (layout,)


def kind(layout: Layout, device: str) -> dict[str, Any]:
    """The tiny model, or a larger one where the layout takes more layers, experts or heads.

    gloo cannot gather pieces of different lengths, as alltoall wants with expert tensors sharded.
    """
    found: dict[str, Any] = {
        "layers": -(-2 // layout.pp) * layout.pp,
        "experts": -(-4 // layout.ep) * layout.ep,
        "groups": -(-2 // layout.tp) * layout.tp,
    }
    if device == "cpu" and layout.expert_tensor > 1:
        found["dispatcher"] = "allgather"
    return found


def body(probe: Probe) -> None:
    """Ten training steps with experts and LoRA under several layouts, and a resumption."""
    _on_megatron.begin(probe)
    tiny = _on_megatron.training(probe)
    found: dict[str, Any] = {}
    saved: dict[str, _resumed.Saved] = {}
    with tempfile.TemporaryDirectory(prefix="ascend-doctor-") as folder:
        for layout in dict.fromkeys((*asked(probe), *layouts(probe.world_size))):
            path = os.path.join(folder, f"{layout.name}-{probe.rank}")
            saved[layout.name] = (layout, kind(layout, probe.device), path)
            with _on_megatron.under(probe, layout):
                with probe.stage(f"model of {layout.name}"):
                    run = tiny.Training(layout, probe.place(), **kind(layout, probe.device))
                train(probe, run, layout.name, path, found)
        with probe.stage("resume in fresh processes"):
            probe.measure("resumed", _resumed.start(probe, folder, AGAIN, saved))


def train(probe: Probe, run: Any, name: str, path: str, found: dict[str, Any]) -> None:
    """Ten steps; what is known so far is recorded after each."""
    one: dict[str, Any] = {"losses": [], "grad_norms": [], "learning_rates": [], "seconds": []}
    one |= {"usual": run.usual, "place": probe.place(), "stage": run.stage, "not_finite": []}
    found[name] = one
    for number in range(1, STEPS + 1):
        if number == STEPS - AGAIN + 1:
            with probe.stage(f"checkpoint of {name}"):
                save(probe, run, path, one)
        with probe.stage(f"step {number} of {name}"):
            if probe.tampers(probe.stage_name):
                run.poison()
            start = time.monotonic()
            step = run.step()
            one["losses"].append(step.loss)
            one["grad_norms"].append(step.grad_norm)
            one["learning_rates"].append(run.learning_rate)
            one["not_finite"].append(step.met and step.met._asdict())
            one["seconds"].append(time.monotonic() - start)
            if run.reports:
                show(probe, f"{name}: step {number}", step, one)
            probe.measure("layouts", found)
    with probe.stage(f"adapters of {name}"):
        one["differences"] = run.differences()
        probe.measure("layouts", found)


def show(probe: Probe, what: str, step: Any, one: dict[str, Any]) -> None:
    """Print a step by hand; keep the first one that is not finite, in the words of trainers.

    Their logs are searched for such words.
    """
    metrics = {"loss": round(step.loss, 5), "grad_norm": round(step.grad_norm, 4)}
    line = f"{what} {metrics | {'learning_rate': one['learning_rates'][-1]}}"
    if probe.alone:
        print(f"{line} {1000 * one['seconds'][-1]:.0f} ms")
    if not math.isfinite(step.grad_norm):
        one.setdefault("output", line)


def save(probe: Probe, run: Any, path: str, one: dict[str, Any]) -> None:
    """Write a checkpoint, and record what it must give when it is loaded."""
    one["saved"] = {"digest": run.digest(), "evaluated": run.evaluate()}
    if probe.tampers(probe.stage_name):
        run.flip()
    run.save(path)
    if probe.tampers(probe.stage_name):
        run.flip()


if __name__ == "__main__":
    _probe.main(body, name="smoke-train")
