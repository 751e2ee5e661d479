"""The examined interpreter: which one it is, and what it says of itself in one short run."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from ascend_doctor.collect.program_folders import list_paths
from ascend_doctor.errors import DataError, Unknown
from ascend_doctor.facts import Doctor, Python
from ascend_doctor.machine.live import (
    Completed,
    Machine,
    NotRecorded,
    ProgramMissing,
    exists,
    is_directory,
    matches,
    names_or_none,
)
from ascend_doctor.machine.torch_abi import read_torch_abi

DEADLINE = 20.0
_SCRIPT = Path(__file__).with_name("interpreter_script.py")
_SENTINEL = "\nascend-doctor interpreter: "  # the script's
# The second group is what CANN's Python part imports; the third is CANN's;
# the last are built where their libraries are.
MODULES = (
    *("torch", "torch_npu", "cloudpickle"),
    *("absl", "attr", "attrs", "cffi", "decorator", "google.protobuf", "numpy", "pathlib2"),
    *("psutil", "requests", "scipy", "sympy", "yaml"),
    *("acl", "hccl", "impl", "tbe", "te"),
    *("_bz2", "_ctypes", "_lzma", "_sqlite3", "_ssl", "zlib"),
)
# Import names that training needs.
TRAINING = ("torch", "torch_npu", "megatron", "mindspeed")
# -c puts the current folder first on sys.path, where a training script has its folder; and a
# json.py on PYTHONPATH would stop the answer.
_BOOT = """import os, sys
if sys.version_info < (3, 6):
    sys.exit("it is Python %d.%d; 3.6 is the oldest that can be examined" % sys.version_info[:2])
if sys.path[:1] == [""]:
    sys.path.pop(0)
path, library = sys.path[:], os.path.dirname(os.__file__)
sys.path.sort(key=lambda one: not one.startswith(library))
import enum, importlib.machinery, json, re, time
sys.path[:] = path
exec(sys.argv.pop(1))
"""


def parse_interpreter(text: str) -> Python | None:
    """The script's output after its sentinel; None without a whole answer."""
    _, sentinel, rest = text.rpartition(_SENTINEL)
    answer = rest.partition("\n")[0] if sentinel else ""
    try:
        return msgspec.json.decode(answer, type=Python)
    except (ValueError, RecursionError):
        return _parse_undecodable(answer)


def _parse_undecodable(answer: str) -> Python | None:
    """The same with bytes of names that are no text."""
    import json  # slow

    try:
        return msgspec.convert(json.loads(answer), Python)
    except (ValueError, RecursionError):
        return None


def python(machine: Machine, executable: str | None = None) -> Python:
    """The requested interpreter, else that of the active environment.

    Raises DataError if the requested one cannot start, Unknown if none is found or answers.
    """
    chosen, by = (executable, "--python") if executable else _active(machine)
    if executable and is_directory(machine, executable):  # the environment that it holds
        chosen = f"{executable.rstrip('/')}/bin/python"
    if chosen is None:
        raise Unknown("there is no active Python environment and no python3 on PATH")
    script = _SCRIPT.read_text("utf-8")
    try:
        done = machine.run(
            [chosen, "-B", "-c", _BOOT, script, *MODULES], deadline=DEADLINE, name="interpreter"
        )
    except ProgramMissing as missing:
        if executable:
            raise _explain(machine, executable, chosen) from missing
        raise Unknown(f"the interpreter cannot be started: {missing}") from missing
    interpreter = parse_interpreter(done.stdout)
    if interpreter is None:
        raise Unknown(f"{chosen}: {_reason(done)}")
    return msgspec.structs.replace(
        interpreter,
        source=chosen,
        executable=interpreter.executable or chosen,
        own=_own(machine, interpreter),
        by=by,
        doctor=_doctor_packages(machine),
        torch_abi=_abi(machine, interpreter) if machine.env.get("ATB_HOME_PATH") else None,
        other_releases=tuple(_others(machine, interpreter)),
    )


def _abi(machine: Machine, python: Python) -> int | None:
    torch = python.find("torch")
    return read_torch_abi(machine, torch.location) if torch else None


def _others(machine: Machine, python: Python) -> Iterator[str]:
    if python.prefix == python.base_prefix:
        return
    own = "python" + ".".join(python.version.split(".")[:2])
    for folder in matches(machine, f"{python.prefix}/lib", "python3.*"):
        if os.path.basename(folder) != own and names_or_none(machine, f"{folder}/site-packages"):
            yield folder


def active(machine: Machine) -> str | None:
    """The interpreter that ``python`` means in this environment."""
    return _active(machine)[0]


def _active(machine: Machine) -> tuple[str | None, str]:
    env = machine.env
    roots = [name for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if env.get(name)]
    # An active environment comes before PATH, which a profile may have changed since.
    paths = [(f"{env[name]}/bin/python", name) for name in roots]
    paths += [(path, "PATH") for path in list_paths(machine, ("python3", "python"))]
    return next((path for path in paths if _is_program(machine, path[0])), (None, ""))


def _explain(machine: Machine, asked: str, chosen: str) -> DataError:
    if chosen != asked:
        return DataError(f"--python {asked}: a folder without bin/python is no environment")
    if not exists(machine, asked):
        return DataError(f"--python {asked}: no such interpreter; name one, or its environment")
    return DataError(f"--python {asked}: not an interpreter; name one, or its environment")


def _is_program(machine: Machine, path: str) -> bool:
    try:
        status = machine.status(path)
    except OSError:
        return False
    return status.kind == "file" and any(
        int(digit) & 1 for digit in status.mode if digit.isdecimal()
    )


def _own(machine: Machine, python: Python) -> bool:
    """Environments share their interpreter's file: prefix and file both count."""
    doctor: dict[str, Any] = machine.value("the doctor's interpreter", _doctor)
    try:
        real = machine.status(python.executable).target
    except OSError:
        return False
    return bool(doctor == {"prefix": python.prefix, "executable": real})


def _doctor() -> dict[str, str]:
    return {"prefix": sys.prefix, "executable": os.path.realpath(sys.executable)}


def _doctor_packages(machine: Machine) -> Doctor | None:
    """None for a machine recorded without them."""
    try:
        value: dict[str, Any] = machine.value("the doctor's packages", _own_packages)
        return msgspec.convert(value, Doctor)
    except (NotRecorded, msgspec.ValidationError):
        return None


def _own_packages() -> dict[str, Any]:
    """By their folders alone: imports nothing."""
    here = [name for name in TRAINING if any(f.find_spec(name, None) for f in sys.meta_path)]
    return {"executable": sys.executable, "packages": here}


def _reason(done: Completed) -> str:
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    last = f": {lines[-1][:200]}" if lines else ""
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
