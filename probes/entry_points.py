"""Imports the Megatron side of each installed framework as a training does, each in a process.

ms-swift and twinkle import MindSpeed themselves, verl's engine too; mcore-bridge and verl's old
actor leave that to their user, so here MindSpeed comes first. Recorded: ``cases`` with what was
imported first and what megatron.core decided by then (see ``mindspeed_patches.py``), the
Transformer Engine that answers, and ``registry``, whether naming a model type already imports
megatron.core; ``fla`` says whose chunk_gated_delta_rule is bound before and after MindSpeed and its
repatch. ``absent`` are entry points of frameworks that are not there, with the reason.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import sys
from typing import Any

import _cases
import _probe
from _packages import find_folder, has_module
from _patches import ADAPTOR, Order, decisions, name_of
from _probe import Probe

MANIFEST = {
    "order": 50,
    "level": 1,
    "seconds": 300,
    "seconds_cpu": 300,
    "needs": ["inspect-env"],
    "does": (
        "imports the Megatron side of each installed framework, and sees who imports megatron.core "
        "first"
    ),
    "on_cpu": "the frameworks that are for it",
}

CASE_SECONDS = 180.0
# What is imported, in its order, and the file that says that there is such an entry point.
# verl removed its actor on 2026-04-20 (verl-project/verl@044bbba27); engines took its place.
ENTRIES = {
    "mcore-bridge": (ADAPTOR, "mcore_bridge"),
    "ms-swift": ("swift.megatron",),
    "twinkle": ("twinkle.model.megatron.megatron",),
    "verl-actor": (ADAPTOR, "verl.workers.actor.megatron_actor"),
    "verl-engine": ("verl.workers.engine.megatron.transformer_impl",),
    "verl-engine-npu": ("verl.workers.engine.mindspeed.transformer_impl",),
    "megatron-adaptor": ("megatron_adaptor",),
    "transformer-engine": ("transformer_engine.pytorch",),
}
# By device; an entry point that is not among them is for all.
ONLY = {"verl-engine": ("cuda", "cpu"), "verl-engine-npu": ("npu",), "megatron-adaptor": ("npu",)}
REGISTRY = "twinkle.model.megatron"
RULE = "fla.ops.gated_delta_rule"


def body(probe: Probe) -> None:
    """Whether the frameworks of this environment import Megatron, and after MindSpeed."""
    with probe.stage("find"):
        absent = {name: missing(name, probe.device) for name in ENTRIES}
        there = [name for name in ENTRIES if not absent[name]]
        if find_folder("twinkle") and "twinkle" in there:
            there.append("registry")
        if probe.device == "npu" and find_folder("fla") and find_folder("mindspeed"):
            there.append("fla")
        probe.measure("absent", {name: why for name, why in absent.items() if why})
        if not there:
            probe.skip("no framework that brings in Megatron is installed")
    _cases.run(probe, __file__, there, limit=CASE_SECONDS, apart=True)


def missing(name: str, device: str) -> str:
    """Why there is no such entry point, "" where there is; nothing is imported for it."""
    if device not in ONLY.get(name, (device,)):
        return f"not for {device}"
    top, _, _ = ENTRIES[name][-1].partition(".")
    if find_folder(top) is None:
        return f"{top} is not installed"
    return "" if has_module(ENTRIES[name][-1]) else f"this {top} has no {ENTRIES[name][-1]}"


def enter(name: str, device: str) -> dict[str, Any]:
    order = Order()
    start(device)
    for module in ENTRIES[name]:
        if module != ADAPTOR or (device == "npu" and find_folder("mindspeed")):
            importlib.import_module(module)
    engine = sys.modules.get("transformer_engine")
    return {
        "order": order.first,
        "mindspeed": ADAPTOR in sys.modules,
        "decisions": decisions() if "megatron.core" in sys.modules else {},
        "transformer_engine": str(getattr(engine, "__file__", None) or ""),
        "version": versions(name),
    }


def start(device: str) -> None:
    """What every training imports first."""
    importlib.import_module("torch")
    if device == "npu":
        importlib.import_module("torch_npu")


def versions(name: str) -> str:
    top = ENTRIES[name][-1].partition(".")[0]
    for package in importlib.metadata.packages_distributions().get(top, ()):
        return f"{package} {importlib.metadata.version(package)}"
    return top


def registry(_: Any, device: str) -> dict[str, Any]:
    """Asking twinkle for a model type must not import megatron.core."""
    order = Order()
    start(device.partition(":")[0])
    importlib.import_module(REGISTRY)
    return {"order": order.first}


def fla(_: Any, device: str) -> dict[str, Any]:
    """Whose chunk_gated_delta_rule is bound, at three times."""
    start(device.partition(":")[0])
    rule = importlib.import_module(RULE)
    owners = {"before": name_of(rule.chunk_gated_delta_rule)}
    adaptor = importlib.import_module(ADAPTOR)
    owners["after the import of MindSpeed"] = name_of(rule.chunk_gated_delta_rule)
    arguments = importlib.import_module("mindspeed.args_utils").get_full_args()
    adaptor.repatch(dict(vars(arguments)))
    owners["after its repatch"] = name_of(rule.chunk_gated_delta_rule)
    return {"owners": owners}


CASES: dict[str, _cases.Case] = {
    **{
        name: lambda _, device, name=name: enter(name, device.partition(":")[0]) for name in ENTRIES
    },
    "registry": registry,
    "fla": fla,
}


if __name__ == "__main__":
    _cases.answer(CASES, bare=True)
    _probe.main(body, name="entry-points")
