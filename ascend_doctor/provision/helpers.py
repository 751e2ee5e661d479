"""Megatron's compiled helpers for its datasets, built for the interpreter of the stack.

Megatron's own Makefile takes the file suffix from whatever python3-config is on PATH, which may be
of another Python; the stack's could not import what it builds (megatron/core/datasets/Makefile).
"""

import json
import os
import shutil
from pathlib import Path

from ascend_doctor.provision.options import SetupOptions
from ascend_doctor.provision.running import CommandError, Runner
from ascend_doctor.provision.steps import Outcome

_SOURCE = "src/megatron-lm/megatron/core/datasets/helpers.cpp"
_COMPILE = 300.0
_COMPILERS = ("c++", "g++", "clang++")
_ASK = """
import sys
sys.path[:] = filter(None, sys.path)  # the current folder
import json, sysconfig, pybind11
paths = [sysconfig.get_path("include"), pybind11.get_include()]
print(json.dumps([sysconfig.get_config_var("EXT_SUFFIX"), paths]))
"""
# As in the Makefile, without -Wall.
_OPTIONS = ("-O3", "-shared", "-std=c++11", "-fPIC")


def compile_helpers(options: SetupOptions, folder: Path, python: str) -> None:
    """Build them if the checkout has their source and they are missing.

    Without a compiler or Python's headers this is skipped with the reason: the machine can
    train with other datasets.
    """
    source = folder / _SOURCE
    if not source.is_file():
        return
    if there := next(source.parent.glob("helpers_cpp*.so"), None):
        outcome = Outcome("helpers_cpp", "skipped", there.name)
    else:
        try:
            library = _compile(options.runner, source, python)
            outcome = Outcome("helpers_cpp", "built", library.name)
        except CommandError as error:
            outcome = Outcome("helpers_cpp", "skipped", str(error))
    options.steps.end(outcome)


def _compile(runner: Runner, source: Path, python: str) -> Path:
    suffix, paths = json.loads(runner.run([python, "-c", _ASK], title="pybind11", deadline=60))
    compiler = next(filter(None, map(shutil.which, _COMPILERS)), None)
    if compiler is None:
        raise CommandError("c++", "no C++ compiler; Megatron compiles it at first use")
    library = source.with_name(f"helpers_cpp{suffix}")
    scratch = library.with_name(f".{library.name}.{os.getpid()}")
    includes = [f"-I{path}" for path in paths]
    command = [compiler, *_OPTIONS, *includes, str(source), "-o", str(scratch)]
    try:
        runner.run(command, title="helpers_cpp", deadline=_COMPILE)
        scratch.replace(library)
    finally:
        scratch.unlink(missing_ok=True)
    return library
