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

import json
import os
import signal
import subprocess
import sys
import threading
import time
from typing import IO, Any

import _probe
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
OUTPUT_KEPT = 2000

# What a child runs. It answers on a pipe of its own: everything here prints on stdout.
CHILD = """
import faulthandler, gc, importlib, importlib.metadata, json, os, signal, sys, time
gc.disable()  # a search for garbage took a fifth of the import
name, answer = sys.argv[1], int(sys.argv[2])
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
os.write(answer, json.dumps(found).encode())
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
os.write(answer, json.dumps(found).encode())
os._exit(0)
"""


def body(probe: Probe) -> None:
    """What the examined interpreter imports, each in a process of its own."""
    probe.measure("python", sys.version.split()[0])
    probe.measure("executable", sys.executable)
    probe.measure("autoload", os.environ.get(AUTOLOAD, ""))
    with probe.stage("find"):
        installed = ask(FIND, ",".join(("torch", *STACK)), limit=30.0 * _probe.PATIENCE)
    if not isinstance(installed, list):
        probe.measure("blocks", f"the interpreter starts no second one: {installed['error']}")
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
        modules[name] = ask(CHILD, module, limit=limit, env={} if plain else {AUTOLOAD: "0"})
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


def ask(code: str, argument: str, *, limit: float, env: dict[str, str] | None = None) -> Any:
    """The answer of a child process; a crash or a time-out is an answer, too."""
    reader, writer = os.pipe()
    start = time.monotonic()
    child = subprocess.Popen(  # noqa: S603 - argument list, no shell
        [sys.executable, "-c", code, argument, str(writer)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, **(env or {})},
        pass_fds=(writer,),
        preexec_fn=_probe.die_with_parent,  # noqa: PLW1509 - threads hold no lock
    )
    os.close(writer)
    printed = bytearray()
    assert child.stderr is not None  # noqa: S101 - it is a pipe
    listener = threading.Thread(target=keep_last, args=(child.stderr, printed), daemon=True)
    listener.start()
    waiting = _probe.waiting
    late = not waiting.await_end(child, waiting.Deadline(limit, child.pid))
    if late:
        child.send_signal(signal.SIGUSR1)  # its stack
        waiting.await_end(child, waiting.Deadline(1.0, child.pid))
        child.kill()
        child.wait()
    # A process that the child has left behind may still hold the other end.
    os.set_blocking(reader, False)
    with os.fdopen(reader, "rb") as file:
        text = file.read()
    if text:
        return json.loads(text)
    listener.join(1.0)
    seconds = time.monotonic() - start
    ended = f"ChildProcessError: the process ended with {child.returncode}"
    return {
        "ok": False,
        "error": f"TimeoutError: no end after {seconds:.0f} s" if late else ended,
        "exit_code": child.returncode,
        "output": bytes(printed).decode("utf-8", "replace"),
        "seconds": seconds,
    }


def keep_last(stream: IO[bytes], printed: bytearray) -> None:
    """Read a stream to its end and keep its last bytes."""
    while data := os.read(stream.fileno(), 65536):
        printed += data
        del printed[:-OUTPUT_KEPT]


if __name__ == "__main__":
    _probe.main(body, name="inspect-env")
