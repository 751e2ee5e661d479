"""Runs several probes one after the other in one process a rank.

Torch is imported, the device taken and the group of all ranks made once. Each probe has its own
record, in a folder named after it. The first probe that fails on a rank ends the process: what it
left behind could make the next ones fail. So does one that records why others cannot run
(``blocks``); the doctor starts again what does not need it.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import os
import sys
from collections.abc import Callable

import _probe
from _probe import Probe


def body_of(name: str, script: str) -> Callable[[Probe], None]:
    """The body of a probe's script, which is imported when it is its turn."""

    def body(probe: Probe) -> None:
        module = f"probe_{name.replace('-', '_')}"
        spec = importlib.util.spec_from_file_location(module, script)
        assert spec is not None  # noqa: S101 - it ends in .py
        assert spec.loader is not None  # noqa: S101
        sys.modules[module] = loaded = importlib.util.module_from_spec(spec)
        # A probe imports its neighbours first, and must not find them later.
        sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
        try:
            spec.loader.exec_module(loaded)
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
    arguments = options()
    folder, rank = arguments.records, _probe.rank_of()
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


def tell(name: str) -> None:
    """What is printed from here on belongs to this probe."""
    sys.stdout.flush()
    sys.stderr.flush()
    ctypes.CDLL(None).fflush(None)
    os.write(1, _probe.MARK + name.encode() + b"\n")


if __name__ == "__main__":
    main()
