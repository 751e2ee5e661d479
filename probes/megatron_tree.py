"""Reads the Megatron that would be imported, without importing it: whose, and which API.

``megatron`` is a namespace package, so megatron.core and megatron.training may come from different
trees. Recorded: ``parts``, where each comes from, ``copies`` of megatron.core on the path and
``distributions`` with their versions; ``api``, the parameters of the functions that frameworks
call, read from the source; ``callers``, calls in installed frameworks with keywords that this
Megatron does not take; and ``gdn``, what there is for gated delta nets.
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
from _packages import find_folder
from _probe import Probe

MANIFEST = {
    "order": 20,
    "level": 1,
    "seconds": 90,
    "seconds_cpu": 90,
    # It imports nothing, so it says what it sees where torch does not import, too.
    "needs": [],
    "does": (
        "reads the Megatron that would be imported, and imports nothing: origin and copies, the "
        "parameters of 13 functions, calls of frameworks, gated delta nets"
    ),
    "on_cpu": "the same",
}

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
        api = {
            f"megatron.core.{entry[0]}.{entry[2]}": parameters(core, *entry[1:]) for entry in API
        }
        probe.measure(
            "api", {name: taken_by for name, taken_by in api.items() if taken_by is not None}
        )
    with probe.stage("callers"):
        taken = {name.rpartition(".")[2]: taken_by for name, taken_by in api.items() if taken_by}
        # From 0.17 on the first hands everything on to the second.
        taken["get_gpt_layer_local_spec"] = taken.get(
            "get_gpt_layer_local_submodules", taken.get("get_gpt_layer_local_spec", [])
        )
        folders = {name: find_folder(name) for name in CALLERS}
        there = {name: folder for name, folder in folders.items() if folder}
        probe.measure("searched", sorted(there))
        probe.measure("callers", find_refusals(there, taken))
    with probe.stage("gdn"):
        probe.measure("gdn", gated_delta_nets(core))


def origin(name: str) -> str | None:
    """The folder that an import would take, without links."""
    folder = find_folder(name)
    return os.path.realpath(folder) if folder else None


def copies() -> list[dict[str, Any]]:
    """Every megatron.core on the path, in its order."""
    copies_by_path: dict[str, str] = {}
    for entry in sys.path:
        path = os.path.realpath(os.path.join(entry or os.curdir, "megatron", "core"))
        if os.path.isfile(os.path.join(path, "__init__.py")):
            copies_by_path.setdefault(path, version(path))
    return [{"path": path, "version": number} for path, number in copies_by_path.items()]


def version(core: str) -> str:
    """The version in package_info.py, "" where it cannot be read."""
    values = {}
    for node in parse(os.path.join(core, "package_info.py")):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            values.update(
                {target.id: node.value.value for target in node.targets if is_name(target)}
            )
    numbers = [values.get(name) for name in ("MAJOR", "MINOR", "PATCH")]
    text = ".".join(map(str, numbers)) + str(values.get("PRE_RELEASE") or "")
    return "" if None in numbers else text


def is_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Name)


def distributions() -> list[str]:
    """Versions of what pip knows as megatron-core."""
    packages = importlib.metadata.distributions(name="megatron-core")
    return sorted({str(package.version) for package in packages})


def parse(path: str) -> list[ast.stmt]:
    """The statements of a file, none where there is no such file or no such Python."""
    try:
        with open(path, encoding="utf-8") as file:
            return ast.parse(file.read()).body
    except (OSError, SyntaxError, ValueError):
        return []


def parameters(core: str, file: str, name: str) -> list[str] | None:
    """What a function, a class's __init__ or a dataclass takes; None where it is not there."""
    for node in parse(os.path.join(core, *file.split("/"))):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return signature(node)
        if isinstance(node, ast.ClassDef) and node.name == name:
            for statement in node.body:
                if isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
                    return signature(statement)[1:]
            return fields(node)
    return None


def signature(node: ast.FunctionDef) -> list[str]:
    arguments = node.args
    names = [
        argument.arg
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    ]
    rest = [("*", arguments.vararg), ("**", arguments.kwarg)]
    return [*names, *(f"{stars}{argument.arg}" for stars, argument in rest if argument)]


def fields(node: ast.ClassDef) -> list[str]:
    """Fields of a dataclass, those of classes that it inherits from left out."""
    targets = [statement.target for statement in node.body if isinstance(statement, ast.AnnAssign)]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def find_refusals(folders: dict[str, str], taken: dict[str, list[str]]) -> list[dict[str, Any]]:
    """Calls with keywords that are no parameters, by file and line."""
    calls_refused: list[dict[str, Any]] = []
    for name, folder in folders.items():
        for path in sources(folder):
            for call, called in calls(path, taken):
                keywords = [keyword.arg for keyword in call.keywords if keyword.arg]
                extra = [keyword for keyword in keywords if keyword not in taken[called]]
                if extra and len(calls_refused) < MOST_CALLS:
                    where = f"{name}/{os.path.relpath(path, folder)}:{call.lineno}"
                    calls_refused.append({"call": called, "where": where, "keywords": extra})
    return calls_refused


def sources(folder: str) -> Iterator[str]:
    for parent, _, names in os.walk(folder):
        yield from (os.path.join(parent, name) for name in sorted(names) if name.endswith(".py"))


def calls(path: str, taken: dict[str, list[str]]) -> Iterator[tuple[ast.Call, str]]:
    """Calls of what was imported from Megatron; what takes any keyword is left out."""
    with open(path, encoding="utf-8", errors="replace") as file:
        text = file.read()
    names = [
        name for name in taken if name in text and not "".join(taken[name][-1:]).startswith("**")
    ]
    if "megatron" not in text or not names:
        return
    nodes = [node for top in parse(path) for node in ast.walk(top)]
    imported = {
        alias.asname or alias.name: alias.name
        for node in nodes
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("megatron")
        for alias in node.names
    }
    tried = {id(call) for node in nodes for call in in_try(node)}
    for node in nodes:
        if not isinstance(node, ast.Call) or id(node) in tried:
            continue
        function = node.func
        if isinstance(function, ast.Name) and imported.get(function.id) in names:
            yield node, imported[function.id]
        elif (
            isinstance(function, ast.Attribute)
            and function.attr in names
            and isinstance(function.value, ast.Name)
            and function.value.id in imported
        ):
            yield node, function.attr


def in_try(node: ast.AST) -> Iterator[ast.AST]:
    """What may raise a TypeError: such a call only asks whether there is such a keyword."""
    if isinstance(node, ast.Try) and any(
        handler.type is not None and "TypeError" in ast.unparse(handler.type)
        for handler in node.handlers
    ):
        for statement in node.body:
            yield from ast.walk(statement)


def gated_delta_nets(core: str) -> dict[str, Any]:
    """What there is for them: in Megatron, MindSpeed, mcore-bridge and flash-linear-attention."""
    bridge, mindspeed = find_folder("mcore_bridge"), find_folder("mindspeed")
    texts = list(read(bridge)) if bridge else []
    return {
        "megatron": any(
            os.path.exists(os.path.join(core, "ssm", name))
            for name in ("gated_delta_net.py", "gated_delta_net")
        ),
        "mindspeed": mindspeed is not None
        and os.path.exists(os.path.join(mindspeed, "core", "ssm", "gated_delta_net.py")),
        "bridge": bridge is not None,
        "bridge_has": any("GatedDeltaNet" in text for text in texts),
        "bridge_masks": any("attention_mask_2d" in text for text in texts),
        "fla": find_folder("fla") is not None,
        "variable": os.environ.get("USE_MCORE_GDN"),
    }


def read(folder: str) -> Iterator[str]:
    for path in sources(folder):
        with open(path, encoding="utf-8", errors="replace") as file:
            yield file.read()


if __name__ == "__main__":
    _probe.main(body, name="megatron-tree")
