"""Small shared objects, compiled for a test."""

import shutil
from pathlib import Path

import pytest

from tests.programs import run_program


def shared_object(path: Path, text: str, *options: str, needs: tuple[Path, ...] = ()) -> Path:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    path.parent.mkdir(parents=True, exist_ok=True)
    soname = () if any("-soname" in option for option in options) else (f"-Wl,-soname,{path.name}",)
    command = [
        *(compiler, "-shared", "-fPIC", "-nostdlib", "-x", "c", "-", "-o", path),
        *("-Wl,--no-as-needed", "-Wl,--unresolved-symbols=ignore-all", *soname, *options),
        *(argument for need in needs for argument in (f"-L{need.parent}", f"-l:{need.name}")),
    ]
    run_program(command, input=text)
    return path


def functions(*names: str, calls: tuple[str, ...] = ()) -> str:
    declared = "".join(f"int {name}(void);\n" for name in calls)
    sums = " + ".join(f"{name}()" for name in calls) or "0"
    return declared + "".join(f"int {name}(void) {{ return {sums}; }}\n" for name in names)
