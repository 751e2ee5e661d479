"""Runs several probes one after the other in one process a rank, or serves launches.

In one process torch is imported, the device taken and the group of all ranks made once. Each probe
has a folder for its record. The first that fails on a rank ends the process: what it left behind
could make the next ones fail. So does one that records why others cannot run (``blocks``).

To ``serve`` is to import torch once for several launches, each of which is a fork and leaves
nothing behind. Should the import have initialised a device there are none: torch_npu and CUDA
refuse such a device in a fork (torch_npu/npu/__init__.py, "Cannot re-initialize NPU in forked
subprocess"). As ``torchrun`` it forks all ranks so.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import ctypes
import importlib.util
import multiprocessing.util
import os
import runpy
import signal
import socket
import sys
from collections.abc import Callable

import _probe
import _spares
from _probe import Probe

# How many fresh processes a probe needs of each rank.
SPARES = {"object-collectives": 2, "smoke-train": 1}


def body_of(name: str, script: str) -> Callable[[Probe], None]:
    """The body of a probe's script, which is imported when it is its turn."""

    def body(probe: Probe) -> None:
        # A probe imports its neighbours first, and must not find them later.
        sys.path.insert(0, _probe.HERE)
        try:
            loaded = _probe.load(f"probe_{name.replace('-', '_')}", script)
        finally:
            _probe.leave_folder()
        loaded.body(probe)

    return body


def options() -> argparse.Namespace:
    parser = _probe.parser_of("together", __doc__ or "")
    parser.add_argument(
        "--part", nargs=3, action="append", metavar=("NAME", "SCRIPT", "SECONDS"), required=True
    )
    arguments = parser.parse_args()
    sys.argv[1:] = []
    return arguments


def main() -> None:
    _probe.leave_folder()
    if sys.argv[1] in MODES:
        MODES[sys.argv[1]](*sys.argv[2:])
        return
    arguments = options()
    if multiprocessing.parent_process():
        become_rank()
    folder, rank = arguments.records, _probe.rank_of()
    _probe.connect(folder, rank)
    # What the first probe does counts, so it does without.
    spares = sum(SPARES.get(name, 0) for name, _, _ in arguments.part[1:])
    if spares and import_torch(arguments.device):
        _spares.fork(spares)
    _probe.attach(folder, rank)
    before: Probe | None = None
    for name, script, seconds in arguments.part:
        tell(name)
        arguments.records, arguments.deadline = os.path.join(folder, name), float(seconds)
        probe = Probe(name, arguments)
        if before is not None:
            before.hand_on(probe)
        if not probe.run(body_of(name, script)):
            _probe.leave(ok=False)
        before = probe
        if probe.values.get("blocks"):
            break
    assert before is not None  # noqa: S101 - there is a part
    before.take_down()
    if multiprocessing.parent_process():
        # multiprocessing runs no exit handlers, neither Python's nor those of libraries.
        multiprocessing.util.Finalize(None, ctypes.CDLL(None).exit, (0,), exitpriority=-2)
        multiprocessing.util.Finalize(None, atexit._run_exitfuncs, exitpriority=-1)  # noqa: SLF001


def fork_ranks(device: str, *words: str) -> None:
    """Be torchrun with these words, and import torch for its ranks."""
    forks = ("--start-method", "fork", "--run-path") if import_torch(device) else ()
    sys.argv[1:] = [*forks, *words]
    runpy.run_module("torch.distributed.run", run_name="__main__")


def serve(device: str, descriptor: str) -> None:
    """Import torch for launches, and become each of them in a fork."""
    _probe.die_with_parent()
    if import_torch(device):
        _spares.serve(socket.socket(fileno=int(descriptor)))


MODES: dict[str, Callable[..., None]] = {"torchrun": fork_ranks, "serve": serve}


def become_rank() -> None:
    """End at signals, and print at once, as a process that torchrun has not forked."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    sys.stdout.reconfigure(write_through=True)  # type: ignore[union-attr]


def import_torch(device: str) -> bool:
    """Import torch for all that is forked; a failure is a probe's. Whether a fork can use it."""
    with contextlib.suppress(Exception):
        torch = _probe.import_torch(device)
        if importlib.util.find_spec("megatron"):
            with _probe.importing(), contextlib.suppress(Exception):  # what Megatron imports
                importlib.import_module("torch._inductor.compile_fx")
        return device == "cpu" or not getattr(torch, device).is_initialized()
    return False


def tell(name: str) -> None:
    """What is printed from here on belongs to this probe."""
    sys.stdout.flush()
    sys.stderr.flush()
    ctypes.CDLL(None).fflush(None)
    os.write(1, _probe.MARK + name.encode() + b"\n")


if __name__ == "__main__":
    main()
