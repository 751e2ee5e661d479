"""Runs a job that others wrote again and again, healthy or with a fault, and records every run.

usage: torchrun upstream_job.py JOB cpu|npu FOLDER SCRIPT

JOB is ``cases.UPSTREAM``, SCRIPT Megatron-LM's pretrain_gpt.py. A run is a
process that is forked from a rank which has imported everything. The repository is on sys.path.
"""

from __future__ import annotations

import functools
import importlib
import os
import runpy
import shlex
import socket
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ascend_recorder
from cases import UPSTREAM_OPTIONS, Fault, Variant, faults, variants
from damage import damage, disturb

from tests.acceptance.rehearsals.model_options import MODEL

STEPS = 3
SECONDS = 180
LEAVE_SECONDS = 20


def meet(folder: Path, label: str, rank: int) -> str:
    """A port, which the first rank chooses."""
    path = folder / f"{label}.port"
    if rank == 0:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
        (folder / f"{label}.new").write_text(str(port))
        (folder / f"{label}.new").rename(path)
    while not path.exists():
        time.sleep(0.01)
    return path.read_text()


class Pretraining:
    """Megatron-LM's pretrain_gpt.py: MindSpeed's on NPUs, Megatron-LM's own on the CPU."""

    def __init__(self, device: str, script: str) -> None:
        self.device, self.script = device, script
        options = (*MODEL, *shlex.split(UPSTREAM_OPTIONS), "--train-iters", str(STEPS))
        backend = "gloo" if device == "cpu" else "nccl"
        sys.argv = [script, *options, "--distributed-backend", backend]
        if device == "cpu":
            from tests.acceptance.rehearsals.plain_cpu import prepare

            sys.argv += ["--no-persist-layer-norm", "--no-rope-fusion"]
            prepare()
        else:
            import mindspeed.megatron_adaptor  # noqa: F401
        importlib.import_module("megatron.training.training")

    def run(self, variant: Variant, fault: Fault | None) -> None:
        width = variant.hidden
        sizes = ("--hidden-size", width, "--ffn-hidden-size", 2 * width, "--seed", variant.seed)
        sys.argv += [str(word) for word in sizes]
        if variant.dtype == "bfloat16":
            sys.argv.append("--bf16")
        if fault:
            break_training(fault)
        runpy.run_path(self.script, run_name="__main__")


def break_training(fault: Fault) -> None:
    """Break Megatron-LM's model and each optimizer step."""
    from megatron import training as package
    from megatron.training import training

    broken_modules: list[Any] = []
    pretrain, set_up = training.pretrain, training.setup_model_and_optimizer

    def broken(datasets: Any, provider: Callable[..., Any], *more: Any, **named: Any) -> Any:
        def build(*arguments: Any, **keywords: Any) -> Any:
            model = provider(*arguments, **keywords)
            broken_modules.append(damage(fault, model))
            return model

        return pretrain(datasets, build, *more, **named)

    def set_up_broken(*arguments: Any, **keywords: Any) -> Any:
        model, optimizer, schedule = set_up(*arguments, **keywords)
        module = broken_modules[0]
        inner = inner_of(optimizer, module)
        optimizer.step = break_steps(fault, module, optimizer.step, inner)
        return model, optimizer, schedule

    package.pretrain = training.pretrain = broken
    training.setup_model_and_optimizer = set_up_broken


def inner_of(optimizer: Any, module: Any) -> Any:
    """torch's optimizer with a module's weights; Megatron-LM has another for experts."""
    chained = getattr(optimizer, "chained_optimizers", None) or [optimizer]
    inners = [optimizer.optimizer for optimizer in chained]
    own = {id(getattr(weight, "main_param", weight)) for weight in module.parameters()}
    for inner in inners:
        if own & {id(weight) for group in inner.param_groups for weight in group["params"]}:
            return inner
    return inners[0]


def break_steps(
    fault: Fault, module: Any, step: Callable[..., Any], inner: Any
) -> Callable[..., Any]:
    """An optimizer's step, after the fault changes a module's gradients."""
    count = iter(range(STEPS + 1))

    def broken(*arguments: Any, **keywords: Any) -> Any:
        disturb(fault, module, inner, next(count))
        return step(*arguments, **keywords)

    return broken


def run_forked(run: Callable[[], None], recording: Any, folder: Path) -> None:
    """One run in its own process, ended where it waits for a failed rank."""
    child = os.fork()
    if child == 0:
        recording.__init__(str(folder), STEPS)
        try:
            run()
        except BaseException as error:  # noqa: BLE001 - a job may also fail of a fault
            sys.stderr.write(f"{folder.name}: {error}\n{traceback.format_exc()[-1500:]}\n")
        recording.close()
        sys.stderr.flush()
        folder.with_name(f"{folder.name}.done").touch()
        os._exit(0)
    end = time.monotonic() + SECONDS
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        # After a rank ends, another may wait forever for its store.
        if folder.with_name(f"{folder.name}.done").exists():
            end = min(end, time.monotonic() + LEAVE_SECONDS)
        if time.monotonic() > end:
            os.kill(child, 9)
            os.waitpid(child, 0)
            return
        time.sleep(0.02)


def main() -> None:
    name, device, target, script = sys.argv[1:]
    folder = Path(target)
    os.environ["ASCEND_DOCTOR_RECORD"] = target
    recording = ascend_recorder.install()
    os.environ["TORCHELASTIC_USE_AGENT_STORE"] = "False"
    rank = int(os.environ["RANK"])
    job = Pretraining(device, script)
    rows: list[tuple[str, Variant, Fault | None]]
    rows = [(variant.name, variant, None) for variant in variants(name)]
    if device == "npu":
        rows += [(fault.name, fault.variant, fault) for fault in faults(name)]
    # Runs already here were recorded by an earlier start.
    recorded = {path.name for path in folder.iterdir() if path.is_dir()}
    for label, variant, fault in rows:
        if label in recorded:
            continue
        os.environ["MASTER_PORT"] = meet(folder, label, rank)
        run_forked(functools.partial(job.run, variant, fault), recording, folder / label)
        if not (fault or (folder / label).exists()):
            sys.exit(f"{label}: nothing was recorded of a healthy run")


main()
