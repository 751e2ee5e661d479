"""What probes that build models of megatron.core have in common. Import it before ``main``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import _megatron
import _probe
from _layouts import ProbeLayout
from _probe import Probe
from parallel_groups import initialise


def begin(probe: Probe) -> Any:
    """Torch with Megatron and the world's group; skips where there is no megatron.core."""
    torch = _megatron.begin(probe)
    _megatron.prepare_training(probe, torch)
    probe.join()
    return torch


def training(probe: Probe) -> Any:
    """The module that trains the tiny model."""
    with probe.stage("import the model"), _probe.importing():
        return _probe.neighbour("_tiny_training")


@contextlib.contextmanager
def under(probe: Probe, layout: ProbeLayout) -> Iterator[None]:
    """Megatron's groups of this layout, taken down at the end."""
    from megatron.core import parallel_state
    from megatron.core.transformer.moe import moe_utils

    with _megatron.forgetting(parallel_state, moe_utils):
        with probe.stage(f"groups of {layout.name}"):
            initialise(parallel_state, layout, probe.device)
        yield


def record(probe: Probe, key: str, values: dict[str, Any], run: Any, steps: int) -> None:
    """Take steps; losses and gradient norms are recorded after each as part of ``key``."""
    losses, norms = values.setdefault("losses", []), values.setdefault("grad_norms", [])
    for _ in range(steps):
        step = run.step()
        losses.append(step.loss)
        norms.append(step.grad_norm)
    values["differences"] = run.differences()
    probe.measure(key, values)
