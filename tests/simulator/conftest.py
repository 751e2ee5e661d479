from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import pytest

from ascend_doctor.simulator import Tree, build

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="session")
def simulator_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("simulator")


@pytest.fixture(scope="session")
def built(examined_python: Path, simulator_cache: Path) -> Tree:
    return build(examined_python, cache=simulator_cache)


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
        base = {**os.environ, "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}
        whole = (tree or built).environment(
            base,
            soc="Ascend910B3",
            devices=devices,
            memory_bytes=memory,
            faults=faults,
            haste=haste,
        )
        return subprocess.run(
            [str(one) for one in argv],
            check=False,
            capture_output=True,
            text=True,
            timeout=300,
            env={**whole, **(env or {})},
        )

    return run
