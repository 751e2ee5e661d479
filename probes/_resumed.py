"""Loads checkpoints of the tiny model in a process that has never trained, and goes on from them.

``smoke_train`` starts one for each of its ranks: they meet over the same store under another
prefix, so that no further port is needed. The record of it is read by the rank that started it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import _on_megatron
import _probe
import _spares
from _layouts import ProbeLayout
from _probe import Probe

# What to resume: names of layouts, their sizes and the path of their checkpoints.
VARIABLE = "ASCEND_DOCTOR_RESUME"
ALONE_SECONDS = 5.0
# Two processes share a device now. HCCL's documentation recommends to set both then
# (hicann/hccl@09300b70:docs/zh/user_guide/hccl_env/HCCL_NPU_SOCKET_PORT_RANGE.md).
PORTS = {"HCCL_NPU_SOCKET_PORT_RANGE": "auto", "HCCL_HOST_SOCKET_PORT_RANGE": "auto"}


# A layout, what the model is, the path of its checkpoint, and which ways to shard it have failed;
# adapters, which are a file a rank, have none.
Saved = tuple[ProbeLayout, dict[str, Any], str, Any]


def start(
    probe: Probe, folder: str, done: int, steps: int, saved: Mapping[str, Saved]
) -> dict[str, Any]:
    """Resume the saved layouts in a fresh process. Raises RuntimeError where it fails."""
    records = os.path.join(folder, "resumed")
    os.mkdir(records)
    deadline = str(max(probe.left() - ALONE_SECONDS, 1.0))
    code = _spares.run(
        [
            *(os.path.abspath(__file__), "--device", probe.device),
            *("--records", records, "--deadline", deadline),
        ],
        environment(probe, {"done": done, "steps": steps, "layouts": saved}),
    )
    values, end = read(os.path.join(records, f"rank-{probe.rank}.jsonl"))
    if not end.get("ok"):
        how = end.get("error") or f"exit code {code}"
        raise RuntimeError(f"the process that resumes the training failed: {how}")
    return values


def environment(probe: Probe, wish: Mapping[str, Any]) -> dict[str, str]:
    """That of this rank; the store is where it was, and its keys are others."""
    ports = PORTS if probe.device == "npu" else {}
    return {**ports, **os.environ, VARIABLE: json.dumps(wish), _probe.PREFIX: "resumed"}


def read(path: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The values of a record, and its end."""
    try:
        with open(path, encoding="utf-8") as file:
            events = [json.loads(line) for line in file]
    except FileNotFoundError:
        events = []
    values = {event["key"]: event["value"] for event in events if event["event"] == "value"}
    return values, next((event for event in events if event["event"] == "end"), {})


def body(probe: Probe) -> None:
    """Load, evaluate, and take the steps that the first process took after it had saved."""
    wish = json.loads(os.environ[VARIABLE])
    _on_megatron.begin(probe)
    tiny = _on_megatron.training(probe)
    checkpoints = _probe.neighbour("_checkpoints")
    checkpoints.world()  # before a layout's groups, with which it would end
    for name, (sizes, kind, path, failed) in wish["layouts"].items():
        layout = ProbeLayout(*sizes)
        with _on_megatron.under(probe, layout), probe.stage(f"resumed {name}"):
            run = tiny.Training(layout, probe.torch_device(), **kind)
            loaded = {}
            if failed is False:
                run.load(path)
            else:
                loaded = every(checkpoints, run, path, wish["done"], failed)
            resumed = {"loaded": loaded}
            # Without anything to load it would train from the start.
            if failed is False or (loaded and all("off" in outcome for outcome in loaded.values())):
                resumed |= {"digest": run.digest(), "evaluated": run.evaluate()}
                _on_megatron.record(probe, name, resumed, run, wish["steps"])
            probe.measure(name, resumed)
        if failed is not False:
            elsewhere(probe, tiny, checkpoints, name, wish, run.against)


def every(checkpoints: Any, run: Any, path: str, done: int, failed: list[str]) -> dict[str, Any]:
    """What each way to shard gives when it is loaded, but for those that could not be saved."""
    kinds = [kind for kind in checkpoints.types() if kind not in failed]
    return {kind: checkpoints.load(run, path, kind, done) for kind in kinds}


def elsewhere(
    probe: Probe, tiny: Any, checkpoints: Any, name: str, wish: Any, trained: Any
) -> None:
    """Load what another layout can read into another layout; ``trained`` is what was saved."""
    sizes, kind, path, failed = wish["layouts"][name]
    other = other_layout(ProbeLayout(*sizes), probe.world_size)
    left_out = [
        *failed,
        *(kind for kind, any_layout in checkpoints.TYPES.items() if not any_layout),
    ]
    if other is None:
        return
    with _on_megatron.under(probe, other), probe.stage(f"{name} as {other.name}"):
        run = tiny.Training(other, probe.torch_device(), **kind)
        run.against = trained
        loaded = every(checkpoints, run, path, wish["done"], left_out)
        probe.measure(f"{name} elsewhere", {"layout": other.name, "loaded": loaded})


def other_layout(layout: ProbeLayout, world_size: int) -> ProbeLayout | None:
    """No pipeline for one, tensor parallelism for what has neither; the same expert parallel size.

    With experts that ranks share, Megatron has an optimizer more, whose state has another name.
    """
    pipeline = layout.pp > 1
    other = layout._replace(tp=1, pp=1) if pipeline else layout._replace(tp=2)
    return other if other.fits(world_size) and other != layout else None


if __name__ == "__main__":
    _probe.main(body, name="resumed")
