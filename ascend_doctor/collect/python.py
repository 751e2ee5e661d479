"""The examined interpreter: which one it is, and what it says of itself in one short run."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import msgspec

from ascend_doctor.collect import interpreter_script
from ascend_doctor.errors import DataError, Unknown
from ascend_doctor.facts import Python
from ascend_doctor.system import Completed, Machine, ProgramMissing, is_directory

DEADLINE = 20.0
# The second group is what the Python part of CANN imports; the third is CANN's own.
MODULES = (
    *("torch", "torch_npu", "cloudpickle"),
    *("absl", "attr", "attrs", "cffi", "decorator", "google.protobuf", "numpy", "pathlib2"),
    *("psutil", "requests", "scipy", "sympy", "yaml"),
    *("acl", "hccl", "impl", "tbe", "te"),
)
# -c puts the current folder in front of sys.path, where a training script has its own folder; and
# a json.py on PYTHONPATH would stop the answer.
_BOOT = """import os, sys
if sys.version_info < (3, 6):
    sys.exit("it is Python %d.%d; 3.6 is the oldest that can be examined" % sys.version_info[:2])
if sys.path[:1] == [""]:
    sys.path.pop(0)
path, library = sys.path[:], os.path.dirname(os.__file__)
sys.path.sort(key=lambda one: not one.startswith(library))
import importlib.machinery, itertools, json, re
sys.path[:] = path
exec(sys.argv.pop(1))
"""


def parse_interpreter(text: str) -> Python | None:
    """What the script wrote after its sentinel; None where there is no whole answer."""
    _, sentinel, rest = text.rpartition(f"\n{interpreter_script.SENTINEL}")
    try:
        found = json.loads(rest.partition("\n")[0]) if sentinel else None
        return msgspec.convert(found, Python)
    except (ValueError, RecursionError):
        return None


def python(machine: Machine, executable: str | None = None) -> Python:
    """The interpreter that was asked for, else that of the active environment.

    Raises DataError where the one that was asked for cannot be started, Unknown where there is
    none or where it gives no answer.
    """
    chosen = _within(machine, executable) if executable else active(machine)
    if chosen is None:
        raise Unknown("there is no active Python environment and no python3 on PATH")
    script = Path(interpreter_script.__file__).read_text("utf-8")
    try:
        done = machine.run(
            [chosen, "-B", "-c", _BOOT, script, *MODULES], deadline=DEADLINE, name="interpreter"
        )
    except ProgramMissing as missing:
        if executable:
            raise DataError(f"--python: {missing}") from missing
        raise Unknown(f"the interpreter cannot be started: {missing}") from missing
    found = parse_interpreter(done.stdout)
    if found is None:
        raise Unknown(f"{chosen}: {_reason(done)}")
    return msgspec.structs.replace(
        found,
        source=chosen,
        executable=found.executable or chosen,
        own=_own(machine, found),
    )


def active(machine: Machine) -> str | None:
    """The interpreter that ``python`` means in this environment."""
    env = machine.env
    roots = [f"{env[name]}/bin" for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if env.get(name)]
    paths = [f"{root}/python" for root in roots]
    for name in ("python3", "python"):
        paths += [f"{one}/{name}" for one in env.get("PATH", "").split(":") if one]
    return next((path for path in paths if _is_program(machine, path)), None)


def _within(machine: Machine, given: str) -> str:
    """A folder stands for the environment that it holds."""
    return f"{given.rstrip('/')}/bin/python" if is_directory(machine, given) else given


def _is_program(machine: Machine, path: str) -> bool:
    try:
        found = machine.status(path)
    except OSError:
        return False
    return found.kind == "file" and any(int(digit) & 1 for digit in found.mode if digit.isdecimal())


def _own(machine: Machine, found: Python) -> bool:
    """Environments share the file of their interpreter, so prefix and file both count."""
    doctor: dict[str, Any] = machine.value("the doctor's interpreter", _doctor)
    try:
        real = machine.status(found.executable).target
    except OSError:
        return False
    return bool(doctor == {"prefix": found.prefix, "executable": real})


def _doctor() -> dict[str, str]:
    return {"prefix": sys.prefix, "executable": os.path.realpath(sys.executable)}


def _reason(done: Completed) -> str:
    said = (done.stderr.strip() or done.stdout.strip()).splitlines()
    last = f": {said[-1][:200]}" if said else ""
    if done.timed_out:
        return f"the interpreter did not answer within {DEADLINE:.0f} s"
    if done.truncated:
        return "the interpreter writes without end"
    if done.exit_code is not None and done.exit_code < 0:
        try:
            name = signal.Signals(-done.exit_code).name
        except ValueError:
            name = f"signal {-done.exit_code}"
        return f"the interpreter was ended by {name}{last}"
    if done.exit_code:
        return f"the interpreter ended with status {done.exit_code}{last}"
    return f"no answer of a Python interpreter{last}"
