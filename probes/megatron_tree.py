"""Reads the Megatron that would be imported, without importing it: whose, and which API.

Run it alone: ``python probes/megatron_tree.py``. ``megatron`` is a namespace package, so
megatron.core and megatron.training may come from different trees. Recorded: ``parts``, where each
comes from, ``copies`` of megatron.core on the path and ``distributions`` with their versions;
``api``, the parameters of the functions that frameworks call, read from the source; ``callers``,
calls in installed frameworks with keywords that this Megatron does not take; and ``gdn``, what
there is for gated delta nets.
"""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Iterator
from typing import Any

import _probe
from _probe import Probe

PARTS = ("core", "training", "legacy")
# Module, file below megatron/core, and what is defined there. The name before the dot is a class.
API = (
    ("optimizer", "optimizer/__init__.py", "get_megatron_optimizer"),
    ("optimizer", "optimizer/optimizer_config.py", "OptimizerConfig"),
    (
        "distributed",
        "distributed/distributed_data_parallel_config.py",
        "DistributedDataParallelConfig",
    ),
    ("distributed", "distributed/finalize_model_grads.py", "finalize_model_grads"),
    ("distributed", "distributed/finalize_model_grads.py", "_get_main_grad_attr"),
    ("distributed", "distributed/finalize_model_grads.py", "_allreduce_word_embedding_grads"),
    ("parallel_state", "parallel_state.py", "initialize_model_parallel"),
    ("tensor_parallel", "tensor_parallel/random.py", "model_parallel_cuda_manual_seed"),
    ("tensor_parallel", "tensor_parallel/layers.py", "ColumnParallelLinear"),
    ("tensor_parallel", "tensor_parallel/layers.py", "RowParallelLinear"),
    ("models.gpt", "models/gpt/gpt_layer_specs.py", "get_gpt_layer_local_spec"),
    ("models.gpt", "models/gpt/gpt_layer_specs.py", "get_gpt_layer_local_submodules"),
    ("models.gpt", "models/gpt/gpt_model.py", "GPTModel"),
)
CALLERS = ("mcore_bridge", "swift", "twinkle", "verl", "mindspeed_llm")
MOST_CALLS = 50


def body(probe: Probe) -> None:
    """Which Megatron this interpreter takes, and what its functions take."""
    with probe.stage("origin"):
        parts = {name: origin(f"megatron.{name}") for name in PARTS}
        core = parts["core"]
        if core is None:
            probe.skip("there is no megatron.core")
        probe.measure("parts", parts)
        probe.measure("version", version(core))
        probe.measure("copies", copies())
        probe.measure("distributions", distributions())
        probe.measure("named", os.environ.get("MEGATRON_LM_PATH", ""))
    with probe.stage("api"):
        api = {f"megatron.core.{one[0]}.{one[2]}": parameters(core, *one[1:]) for one in API}
        probe.measure("api", {name: found for name, found in api.items() if found is not None})
    with probe.stage("callers"):
        taken = {name.rpartition(".")[2]: found for name, found in api.items() if found}
        # From 0.17 on the first hands everything on to the second.
        taken["get_gpt_layer_local_spec"] = taken.get(
            "get_gpt_layer_local_submodules", taken.get("get_gpt_layer_local_spec", [])
        )
        folders = {name: folder(name) for name in CALLERS}
        there = {name: place for name, place in folders.items() if place}
        probe.measure("searched", sorted(there))
        probe.measure("callers", refused(there, taken))
    with probe.stage("gdn"):
        probe.measure("gdn", gated_delta_nets(core))


# ---------------------------------------------------------------- whose it is


def origin(name: str) -> str | None:
    """The folder that an import would take. Only the namespace above it is imported."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    places = list(spec.submodule_search_locations or ()) if spec else []
    return os.path.realpath(places[0]) if places else None


def copies() -> list[dict[str, Any]]:
    """Every megatron.core on the path, in its order."""
    found: dict[str, str] = {}
    for entry in sys.path:
        place = os.path.realpath(os.path.join(entry or os.curdir, "megatron", "core"))
        if os.path.isfile(os.path.join(place, "__init__.py")):
            found.setdefault(place, version(place))
    return [{"path": place, "version": number} for place, number in found.items()]


def version(core: str) -> str:
    """The version in package_info.py, "" where it cannot be read."""
    values = {}
    for node in parsed(os.path.join(core, "package_info.py")):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            values.update({one.id: node.value.value for one in node.targets if is_name(one)})
    numbers = [values.get(one) for one in ("MAJOR", "MINOR", "PATCH")]
    text = ".".join(map(str, numbers)) + str(values.get("PRE_RELEASE") or "")
    return "" if None in numbers else text


def is_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Name)


def distributions() -> list[str]:
    """Versions of what pip knows as megatron-core."""
    found = importlib.metadata.distributions(name="megatron-core")
    return sorted({str(one.version) for one in found})


# ---------------------------------------------------------------- what it takes


def parsed(path: str) -> list[ast.stmt]:
    """The statements of a file, none where there is no such file or no such Python."""
    try:
        with open(path, encoding="utf-8") as file:
            return ast.parse(file.read()).body
    except (OSError, SyntaxError, ValueError):
        return []


def parameters(core: str, file: str, name: str) -> list[str] | None:
    """What a function, a class's __init__ or a dataclass takes; None where it is not there."""
    for node in parsed(os.path.join(core, *file.split("/"))):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return signature(node)
        if isinstance(node, ast.ClassDef) and node.name == name:
            for one in node.body:
                if isinstance(one, ast.FunctionDef) and one.name == "__init__":
                    return signature(one)[1:]
            return fields(node)
    return None


def signature(node: ast.FunctionDef) -> list[str]:
    given = node.args
    names = [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    rest = [("*", given.vararg), ("**", given.kwarg)]
    return [*names, *(f"{stars}{one.arg}" for stars, one in rest if one)]


def fields(node: ast.ClassDef) -> list[str]:
    """Fields of a dataclass, those of classes that it inherits from left out."""
    found = [one.target for one in node.body if isinstance(one, ast.AnnAssign)]
    return [one.id for one in found if isinstance(one, ast.Name)]


# ---------------------------------------------------------------- who calls it


def folder(name: str) -> str | None:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    places = list(spec.submodule_search_locations or ()) if spec else []
    return places[0] if places else None


def refused(folders: dict[str, str], taken: dict[str, list[str]]) -> list[dict[str, Any]]:
    """Calls with keywords that are no parameters, by file and line."""
    found: list[dict[str, Any]] = []
    for name, place in folders.items():
        for path in sources(place):
            for call, called in calls(path, taken):
                given = [one.arg for one in call.keywords if one.arg]
                extra = [one for one in given if one not in taken[called]]
                if extra and len(found) < MOST_CALLS:
                    where = f"{name}/{os.path.relpath(path, place)}:{call.lineno}"
                    found.append({"call": called, "where": where, "keywords": extra})
    return found


def sources(place: str) -> Iterator[str]:
    for parent, _, names in os.walk(place):
        yield from (os.path.join(parent, one) for one in sorted(names) if one.endswith(".py"))


def calls(path: str, taken: dict[str, list[str]]) -> Iterator[tuple[ast.Call, str]]:
    """Calls of what was imported from Megatron; what takes any keyword is left out."""
    with open(path, encoding="utf-8", errors="replace") as file:
        text = file.read()
    wanted = [one for one in taken if one in text and not "".join(taken[one][-1:]).startswith("**")]
    if "megatron" not in text or not wanted:
        return
    nodes = [one for top in parsed(path) for one in ast.walk(top)]
    imported = {
        alias.asname or alias.name: alias.name
        for node in nodes
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("megatron")
        for alias in node.names
    }
    tried = {id(one) for node in nodes for one in in_try(node)}
    for node in nodes:
        if not isinstance(node, ast.Call) or id(node) in tried:
            continue
        function = node.func
        if isinstance(function, ast.Name) and imported.get(function.id) in wanted:
            yield node, imported[function.id]
        elif (
            isinstance(function, ast.Attribute)
            and function.attr in wanted
            and isinstance(function.value, ast.Name)
            and function.value.id in imported
        ):
            yield node, function.attr


def in_try(node: ast.AST) -> Iterator[ast.AST]:
    """What may raise a TypeError: such a call only asks whether there is such a keyword."""
    if isinstance(node, ast.Try) and any(
        one.type is not None and "TypeError" in ast.unparse(one.type) for one in node.handlers
    ):
        for one in node.body:
            yield from ast.walk(one)


# ---------------------------------------------------------------- gated delta nets


def gated_delta_nets(core: str) -> dict[str, Any]:
    """What there is for them: in Megatron, MindSpeed, mcore-bridge and flash-linear-attention."""
    bridge, mindspeed = folder("mcore_bridge"), folder("mindspeed")
    texts = list(read(bridge)) if bridge else []
    return {
        "megatron": any(
            os.path.exists(os.path.join(core, "ssm", one))
            for one in ("gated_delta_net.py", "gated_delta_net")
        ),
        "mindspeed": mindspeed is not None
        and os.path.exists(os.path.join(mindspeed, "core", "ssm", "gated_delta_net.py")),
        "bridge": bridge is not None,
        "bridge_has": any("GatedDeltaNet" in one for one in texts),
        "bridge_masks": any("attention_mask_2d" in one for one in texts),
        "fla": folder("fla") is not None,
        "variable": os.environ.get("USE_MCORE_GDN"),
    }


def read(place: str) -> Iterator[str]:
    for path in sources(place):
        with open(path, encoding="utf-8", errors="replace") as file:
            yield file.read()


if __name__ == "__main__":
    _probe.main(body, name="megatron-tree")
