"""Loads checkpoints of the tiny model in a process that has never trained, and goes on from them.

``smoke_train`` starts one for each of its ranks: they meet over the same store under another
prefix, so that no further port is needed. The record of it is read by the rank that started it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import _on_megatron
import _probe
from _layouts import Layout
from _probe import Probe

# What to resume: names of layouts, their sizes and the path of their checkpoints.
VARIABLE = "ASCEND_DOCTOR_RESUME"
ALONE_SECONDS = 5.0
# Two processes share a device now. HCCL's documentation recommends to set both then
# (hicann/hccl@09300b70:docs/zh/user_guide/hccl_env/HCCL_NPU_SOCKET_PORT_RANGE.md).
PORTS = {"HCCL_NPU_SOCKET_PORT_RANGE": "auto", "HCCL_HOST_SOCKET_PORT_RANGE": "auto"}


# A layout, what the model is, and the path of its checkpoint.
Saved = tuple[Layout, dict[str, Any], str]


def start(probe: Probe, folder: str, steps: int, saved: Mapping[str, Saved]) -> dict[str, Any]:
    """Resume the saved layouts in a fresh process. Raises RuntimeError where it fails."""
    records = os.path.join(folder, "resumed")
    os.mkdir(records)
    done = subprocess.run(  # noqa: S603 - argument list, no shell
        [
            *(sys.executable, "-W", "ignore", os.path.abspath(__file__)),
            *("--device", probe.device, "--records", records),
            *("--deadline", str(max(probe.left() - ALONE_SECONDS, 1.0))),
        ],
        check=False,
        stdin=subprocess.DEVNULL,
        env=environment(probe, {"steps": steps, "layouts": saved}),
    )
    values, end = read(os.path.join(records, f"rank-{probe.rank}.jsonl"))
    if not end.get("ok"):
        how = end.get("error") or f"exit code {done.returncode}"
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
    values = {one["key"]: one["value"] for one in events if one["event"] == "value"}
    return values, next((one for one in events if one["event"] == "end"), {})


def body(probe: Probe) -> None:
    """Load, evaluate, and take the steps that the first process took after it had saved."""
    wish = json.loads(os.environ[VARIABLE])
    _on_megatron.begin(probe)
    tiny = _on_megatron.training(probe)
    for name, (sizes, kind, path) in wish["layouts"].items():
        layout = Layout(*sizes)
        with _on_megatron.under(probe, layout), probe.stage(f"resumed {name}"):
            run = tiny.Training(layout, probe.place(), **kind)
            run.load(path)
            found = {"digest": run.digest(), "evaluated": run.evaluate()}
            _on_megatron.record(probe, name, found, run, wish["steps"])


if __name__ == "__main__":
    _probe.main(body, name="resumed")
