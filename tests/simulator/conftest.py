import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import pytest

from ascend_doctor.simulator import Tree, build
from tests.conftest import QUIET
from tests.programs import run_program

PROGRAMS = Path(__file__).parent / "programs"


SANITIZE = "-fsanitize=address,undefined -fno-sanitize-recover=undefined -g -O1"


class Sanitized(Tree, frozen=True):
    def environment(self, *arguments: Any, **options: Any) -> dict[str, str]:
        paths = [
            run_program(["cc", f"-print-file-name={name}"]).stdout.strip()
            for name in ("libasan.so", "libstdc++.so.6")  # C++ exceptions need the second
        ]
        env = super().environment(*arguments, **options)
        # The interpreter itself never frees all.
        return {**env, "LD_PRELOAD": ":".join(paths), "ASAN_OPTIONS": "detect_leaks=0"}


@pytest.fixture(scope="session")
def sanitized(examined_python: Path, simulator_cache: Path) -> Tree:
    compiler = simulator_cache / "sanitizing" / "cc"
    compiler.parent.mkdir(parents=True, exist_ok=True)
    compiler.write_text(f'#!/bin/sh\nexec {shutil.which("cc")} "$@" {SANITIZE}\n', "utf-8")
    compiler.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{compiler.parent}:{os.environ['PATH']}")
        tree = build(examined_python, cache=simulator_cache)
    return Sanitized(root=tree.root, cann=tree.cann, kernels=tree.kernels)


class Run(Protocol):
    def __call__(
        self,
        *argv: object,
        tree: Tree | None = None,
        faults: tuple[str, ...] = (),
        env: Mapping[str, str] | None = None,
        devices: int = 8,
        memory: int = 1 << 30,
        haste: float = 1,
    ) -> subprocess.CompletedProcess[str]: ...


@pytest.fixture
def simulate(built: Tree) -> Run:
    """Run a command on a simulated machine, to its end; gives exit code, stdout and stderr."""

    def run(
        *argv: object,
        tree: Tree | None = None,
        faults: tuple[str, ...] = (),
        env: Mapping[str, str] | None = None,
        devices: int = 8,
        memory: int = 1 << 30,
        haste: float = 1,
    ) -> subprocess.CompletedProcess[str]:
        whole = (tree or built).environment(
            os.environ | QUIET,
            soc="Ascend910B3",
            devices=devices,
            memory_bytes=memory,
            faults=faults,
            haste=haste,
        )
        return run_program(
            [str(argument) for argument in argv], check=False, env={**whole, **(env or {})}
        )

    return run


class Forked(Protocol):
    def __call__(
        self, program: str | Path, *arguments: object, ranks: int = 0, **options: Any
    ) -> subprocess.CompletedProcess[str]: ...


@pytest.fixture
def forked(simulate: Run, simulated_python: Path) -> Forked:
    """What `simulate` tells of a program or, with ranks, of torchrun, in a fraction of the time."""

    def run(
        program: str | Path, *arguments: object, ranks: int = 0, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        command: list[object] = [PROGRAMS / program, *arguments]
        if ranks:
            command = torchrun(ranks, *command)
        return simulate(simulated_python, *command, **options)

    return run


def torchrun(ranks: int, *command: object) -> list[object]:
    """The arguments of an interpreter that starts a program on so many ranks."""
    launcher = ("-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}")
    return [*launcher, *command]
