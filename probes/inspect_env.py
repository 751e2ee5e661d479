"""Imports what a training stack imports, each name in a fresh process of this interpreter.

A failed import of torch_npu leaves its operators half registered, and a second try in the same
process says "Only a single TORCH_LIBRARY can be used ...", so no two imports share a process. Since
torch 2.5, ``import torch`` imports torch_npu, too; where that fails, torch is tried again with
TORCH_DEVICE_BACKEND_AUTOLOAD=0. Recorded in ``modules``: version, file, seconds, the innermost
error. ``autoload_trap``: torch imports without its extensions only; ``blocks``: why nothing else
can run.
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
    for one in name.split():
        module = importlib.import_module(one)
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
    probe.measure("autoload", os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", ""))
    with probe.stage("find"):
        listed = answer(Child("-c", FIND, ",".join(("torch", *STACK))), 30.0 * _probe.PATIENCE)
    installed = listed.get("installed")
    if installed is None:
        probe.measure("blocks", f"the interpreter starts no second one: {listed['error']}")
        return
    if "torch" not in installed:
        probe.measure("blocks", "torch is not installed in this environment")
        return
    modules: dict[str, Any] = {}
    # As the environment has it, then without extensions.
    ok = attempt(probe, modules, "torch", begin("torch", modules, autoload=True))
    trapped = not ok and attempt(probe, modules, WITHOUT, begin(WITHOUT, modules, autoload=False))
    names = [name for name in STACK if name in installed and (ok or trapped)]
    ahead: dict[str, Child] = {}
    for name, following in zip(names, [*names[1:], ""], strict=True):
        if all(modules.get(need, {}).get("ok") for need in NEEDS.get(name, ())):
            child = ahead.pop(name, None) or begin(name, modules, autoload=ok)
            if following and following not in (*NEEDS, *AFTER):
                ahead[following] = begin(following, modules, autoload=ok)
            attempt(probe, modules, name, child)
    probe.measure("autoload_trap", trapped)
    probe.measure("blocks", block(probe.device, modules))


def begin(name: str, modules: dict[str, Any], *, autoload: bool) -> Child:
    """Start one import in one process."""
    module = name.partition(" ")[0]
    # torch_npu by itself shows its own error; behind autoload it is wrapped.
    plain = autoload and module != "torch_npu"
    first = AFTER.get(name, "")
    if modules.get(first, {}).get("ok"):
        module = f"{first} {module}"
    return Child("-c", CHILD, module, "" if plain else "0")


def attempt(probe: Probe, modules: dict[str, Any], name: str, child: Child) -> bool:
    """Whether an import goes well; the table of modules is recorded anew after each."""
    with probe.stage(f"import {name}"):
        limit = min(IMPORT_SECONDS, max(probe.left() - 5.0, 1.0))
        modules[name] = answer(child, limit)
        if str(modules[name].get("error")).startswith("TimeoutError: no "):
            probe.measure("late", value=True)
        probe.measure("modules", modules)
    return bool(modules[name]["ok"])


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


def answer(child: Child, limit: float) -> dict[str, Any]:
    """The answer of a child process; a crash or a time-out is an answer, too."""
    with contextlib.closing(child):
        return {"ok": False, **child.next(limit)}


if __name__ == "__main__":
    _probe.main(body, name="inspect-env")
