import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import pytest

from ascend_doctor.simulator import Tree, build
from tests.conftest import QUIET
from tests.programs import run_program

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="session")
def sanitized(examined_python: Path, simulator_cache: Path) -> Tree:
    return build(examined_python, cache=simulator_cache, sanitize=True)


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
