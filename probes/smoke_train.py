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
from collections.abc import Mapping
from typing import Any

import _on_megatron
import _probe
import _resumed
from _layouts import Layout
from _probe import Probe

STEPS = 10
AGAIN = 2
MOST_EXPERT_RANKS = 4
HIDDEN = 64


def layouts(world_size: int) -> dict[Layout, dict[str, Any]]:
    """What is trained under which layout: adapters with experts, a pipeline, data parallelism.

    The expert tensor parallel size is 1: what is not sharded of an expert's adapter would differ.
    """
    alone = {"experts": 0, "adapters": False}
    if world_size % 2:
        return {Layout(etp=1): {}, Layout(): alone}
    experts = Layout(tp=2, ep=min(max(world_size // 2, 2), MOST_EXPERT_RANKS), etp=1)
    pipeline = Layout(tp=2, pp=2, ep=2, etp=1) if world_size % 4 == 0 else Layout(pp=2, etp=1)
    found = {experts: {}, pipeline: {"adapters": False, "tied": True}, Layout(): alone}
    return {one: kind for one, kind in found.items() if one.fits(world_size)}


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


def fitted(layout: Layout, kind: Mapping[str, Any], device: str) -> dict[str, Any]:
    """The tiny model, or a larger one where the layout takes more layers, experts or heads.

    gloo cannot gather pieces of different lengths, as alltoall wants with expert tensors sharded.
    """
    found: dict[str, Any] = {
        "layers": -(-2 // layout.pp) * layout.pp,
        "experts": -(-4 // layout.ep) * layout.ep,
        "groups": -(-2 // layout.tp) * layout.tp,
        **kind,
    }
    if device == "cpu" and layout.expert_tensor > 1:
        found["dispatcher"] = "allgather"
    return found


def body(probe: Probe) -> None:
    """Ten training steps under several layouts, against plain torch, and a resumption."""
    _on_megatron.begin(probe)
    tiny = _on_megatron.training(probe)
    checkpoints = _probe.neighbour("_checkpoints")
    found: dict[str, Any] = {}
    saved: dict[str, _resumed.Saved] = {}
    with tempfile.TemporaryDirectory(prefix="ascend-doctor-") as own:
        with probe.stage("folder of checkpoints"):
            shared = checkpoints.shared_folder(own)
        for layout, wish in chosen(probe).items():
            name = layout.name
            kind = fitted(layout, wish, probe.device)
            with _on_megatron.under(probe, layout):
                with probe.stage(f"model of {name}"):
                    run = tiny.Training(layout, probe.place(), **kind)
                whole = shared is not None and not run.kind.adapters
                path = os.path.join(str(shared) if whole else own, name)
                train(probe, run, name, path, found, checkpoints if whole else None)
            failed = found[name]["saved"].get("failed")
            saved[name] = (layout, kind, path, whole and [*failed])
        with probe.stage("resume in fresh processes"):
            probe.measure("resumed", _resumed.start(probe, own, STEPS - AGAIN, AGAIN, saved))
            # The folder is gone when rank 0 has ended.
            checkpoints.meet()


def chosen(probe: Probe) -> dict[Layout, dict[str, Any]]:
    """What is asked for first, then the usual ones."""
    usual = layouts(probe.world_size)
    first: dict[Layout, dict[str, Any]] = {one: {} for one in asked(probe)}
    return first | {one: wish for one, wish in usual.items() if one not in first}


def train(
    probe: Probe, run: Any, name: str, path: str, found: dict[str, Any], checkpoints: Any
) -> None:
    """Ten steps; what is known so far is recorded after each."""
    one: dict[str, Any] = {"losses": [], "grad_norms": [], "learning_rates": [], "seconds": []}
    one |= {"kind": run.kind._asdict(), **run.sizes}
    one |= {"place": probe.place(), "stage": run.stage, "not_finite": []}
    found[name] = one
    with probe.stage(f"reference of {name}"):
        trace = run.against.trace(STEPS)
        one["reference"] = trace._asdict()
    for number in range(1, STEPS + 1):
        if number == STEPS - AGAIN + 1:
            with probe.stage(f"checkpoint of {name}"):
                save(probe, run, path, one, checkpoints)
        with probe.stage(f"step {number} of {name}"):
            if probe.tampers(probe.stage_name):
                run.poison()
            start = time.monotonic()
            step = run.step(one.__setitem__ if number == 1 else None)
            one["losses"].append(step.loss)
            one["grad_norms"].append(step.grad_norm)
            one["learning_rates"].append(run.learning_rate)
            one["not_finite"].append(step.met and step.met._asdict())
            one["seconds"].append(time.monotonic() - start)
            if run.reports:
                show(probe, f"{name}: step {number}", step, one)
            probe.measure("layouts", found)
    with probe.stage(f"weights of {name}"):
        one["differences"] = run.differences()
        one["mistakes"] = run.against.mistakes_of(one["losses"], trace)
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


def save(probe: Probe, run: Any, path: str, one: dict[str, Any], checkpoints: Any) -> None:
    """Write a checkpoint, and record what it must give when it is loaded.

    All weights are saved as Megatron does, adapters a file a rank as their trainers do.
    """
    one["saved"] = {"digest": run.digest(), "evaluated": run.evaluate()}
    if probe.tampers(probe.stage_name):
        run.flip()
    if checkpoints:
        one["saved"]["failed"] = checkpoints.save(run, path)
    else:
        run.save(path)
    if probe.tampers(probe.stage_name):
        run.flip()


if __name__ == "__main__":
    _probe.main(body, name="smoke-train")
