"""Imports what a training stack imports, each name in a fresh process of this interpreter.

A failed import of torch_npu leaves its operator library half registered, and a second try in the
same process then says the misleading "Only a single TORCH_LIBRARY can be used ...", so no two
imports share a process. Since torch 2.5, ``import torch`` imports torch_npu, too; where that fails,
torch is tried again with TORCH_DEVICE_BACKEND_AUTOLOAD=0, which tells the trap from a broken torch.
Recorded of each name: version, file, seconds, and the innermost error. ``modules`` holds them;
``autoload_trap`` says whether torch imports without its extensions only; ``blocks`` says why
nothing else can run.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any

import _probe
from _cases import Child
from _probe import Probe

MANIFEST = {
    "order": 10,
    "level": 1,
    "seconds": 300,
    "seconds_cpu": 300,
    "needs": [],
    "does": "imports every package of the stack, each in a fresh process",
    "on_cpu": "the same",
}

# In the order in which a training script imports them. mindspeed.megatron_adaptor patches
# megatron.core and must come first in its process, which it does here.
STACK = (
    "torch_npu",
    "megatron.core",
    "mindspeed",
    "mindspeed.megatron_adaptor",
    "megatron_adaptor",
    "transformer_engine",
    "mcore_bridge",
    "triton",
    "transformers",
    "peft",
    "swift",
    "verl",
    "twinkle",
)
# Without them its error would be theirs once more.
NEEDS = {"mindspeed.megatron_adaptor": ("torch_npu", "megatron.core")}
# What the adaptor stands in for, the bridge imports by NVIDIA's name; ms-swift imports the adaptor
# before it on NPUs (swift/megatron/__init__.py).
AFTER = {"mcore_bridge": "mindspeed.megatron_adaptor"}
AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"
WITHOUT = "torch without autoload"
IMPORT_SECONDS = 120.0 * _probe.PATIENCE

# What a child runs. It answers on a pipe of its own: everything here prints on stdout.
CHILD = """
import ctypes, faulthandler, gc, importlib, importlib.metadata, json, os, signal, sys, time
gc.disable()  # a search for garbage took a fifth of the import
ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
name, answer, autoload = sys.argv[1], int(sys.argv[2]), sys.argv[3]
if autoload:
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = autoload
sys.argv[1:] = []
faulthandler.enable()
faulthandler.register(signal.SIGUSR1)
sys.path[:] = [one for one in sys.path if one]  # not the working directory that -c adds
found = {"ok": True}
start = time.monotonic()
try:
    *first, name = name.split()
    for one in first:
        importlib.import_module(one)
    module = importlib.import_module(name)
    found["file"] = getattr(module, "__file__", None) or ""
    found["version"] = str(getattr(module, "__version__", ""))
    if name == "torch":
        found["cuda"] = str(module.version.cuda or "")
    if name == "torch_npu":
        import torch
        found["devices"] = torch.npu.device_count()
except BaseException as error:
    chain = [error]
    while True:
        last = chain[-1]
        inner = last.__cause__ or (None if last.__suppress_context__ else last.__context__)
        if inner is None or inner in chain:
            break
        chain.append(inner)
    texts = [f"{type(one).__name__}: {one}"[:4000] for one in chain]
    found.update(ok=False, error=texts[-1], outermost=texts[0])
found["seconds"] = time.monotonic() - start
os.write(answer, json.dumps(found).encode() + b"\\n")
os._exit(0)
"""

# find_spec of a sub-module imports its parents, so this is a process of its own, too.
FIND = """
import importlib.util, json, os, sys
names, answer = sys.argv[1].split(","), int(sys.argv[2])
sys.path[:] = [one for one in sys.path if one]
found = []
for name in names:
    try:
        if importlib.util.find_spec(name.partition(".")[0]) is None:
            continue
        if name == "megatron.core" and importlib.util.find_spec(name) is None:
            continue
    except (ImportError, ValueError, AttributeError):
        pass
    found.append(name)
os.write(answer, json.dumps({"installed": found}).encode() + b"\\n")
os._exit(0)
"""


def body(probe: Probe) -> None:
    """What the examined interpreter imports, each in a process of its own."""
    probe.measure("python", sys.version.split()[0])
    probe.measure("executable", sys.executable)
    probe.measure("autoload", os.environ.get(AUTOLOAD, ""))
    with probe.stage("find"):
        found = ask(FIND, ",".join(("torch", *STACK)), limit=30.0 * _probe.PATIENCE)
    installed = found.get("installed")
    if installed is None:
        probe.measure("blocks", f"the interpreter starts no second one: {found['error']}")
        return
    if "torch" not in installed:
        probe.measure("blocks", "torch is not installed in this environment")
        return
    modules: dict[str, Any] = {}
    trapped = import_torch(probe, modules)
    if trapped or modules["torch"]["ok"]:
        for name in STACK:
            needs = [modules.get(name, {}).get("ok") for name in NEEDS.get(name, ())]
            if name in installed and all(needs):
                attempt(probe, modules, name, autoload=not trapped)
    probe.measure("autoload_trap", trapped)
    probe.measure("blocks", block(probe.device, modules))


def import_torch(probe: Probe, modules: dict[str, Any]) -> bool:
    """Import torch as the environment has it, then without extensions. Whether only that works."""
    if attempt(probe, modules, "torch", autoload=True)["ok"]:
        return False
    return bool(attempt(probe, modules, WITHOUT, autoload=False)["ok"])


def attempt(probe: Probe, modules: dict[str, Any], name: str, *, autoload: bool) -> dict[str, Any]:
    """One import in one process; the table of modules is recorded anew after each."""
    with probe.stage(f"import {name}"):
        limit = min(IMPORT_SECONDS, max(probe.left() - 5.0, 1.0))
        module = name.partition(" ")[0]
        # torch_npu by itself shows its own error; behind autoload it is wrapped.
        plain = autoload and module != "torch_npu"
        first = AFTER.get(name, "")
        if modules.get(first, {}).get("ok"):
            module = f"{first} {module}"
        modules[name] = ask(CHILD, module, "" if plain else "0", limit=limit)
        if str(modules[name].get("error")).startswith("TimeoutError: no "):
            probe.measure("late", value=True)
        probe.measure("modules", modules)
    return dict(modules[name])


def block(device: str, modules: dict[str, Any]) -> str:
    """Why no further probe can run on this device, "" where it can."""
    if device == "cpu":
        torch = modules.get(WITHOUT, modules["torch"])
        return "" if torch["ok"] else f"torch does not import: {torch['error']}"
    for name in ("torch", "torch_npu") if device == "npu" else ("torch",):
        if name not in modules:
            return f"{name} is not installed in this environment"
        if not modules[name]["ok"]:
            return f"{name} does not import: {modules[name]['error']}"
    return ""


def ask(code: str, *words: str, limit: float) -> dict[str, Any]:
    """The answer of a child process; a crash or a time-out is an answer, too."""
    with contextlib.closing(Child("-c", code, *words)) as child:
        return {"ok": False, **child.next(limit)}


if __name__ == "__main__":
    _probe.main(body, name="inspect-env")
