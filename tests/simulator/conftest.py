from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

import pytest

from ascend_doctor.simulator import Tree, build

PROGRAMS = Path(__file__).parent / "programs"
QUIET = {"PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}


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
        whole = (tree or built).environment(
            os.environ | QUIET,
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


class Forked(Protocol):
    def __call__(  # noqa: PLR0913 - what a test may want otherwise
        self,
        program: str | Path,
        *arguments: object,
        ranks: int = 0,
        faults: tuple[str, ...] = (),
        env: Mapping[str, str] | None = None,
        devices: int = 8,
        memory: int = 1 << 30,
        haste: float = 1,
    ) -> subprocess.CompletedProcess[str]: ...


@pytest.fixture(scope="session")
def imported(examined_python: Path, built: Tree) -> Iterator[subprocess.Popen[str]]:
    """A process that has imported torch_npu and runs programs in copies of itself."""
    env = built.environment(os.environ | QUIET, soc="Ascend910B3", devices=8, memory_bytes=1 << 30)
    with subprocess.Popen(
        [examined_python, PROGRAMS / "forked.py"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=env,
    ) as server:
        yield server


@pytest.fixture
def forked(built: Tree, imported: subprocess.Popen[str], tmp_path: Path) -> Forked:
    """What `simulate` tells of a program or, with ranks, of torchrun, in a fraction of the time."""

    def run(  # noqa: PLR0913 - as above
        program: str | Path,
        *arguments: object,
        ranks: int = 0,
        faults: tuple[str, ...] = (),
        env: Mapping[str, str] | None = None,
        devices: int = 8,
        memory: int = 1 << 30,
        haste: float = 1,
    ) -> subprocess.CompletedProcess[str]:
        whole = built.environment(
            os.environ | QUIET,
            soc="Ascend910B3",
            devices=devices,
            memory_bytes=memory,
            faults=faults,
            haste=haste,
        )
        argv = [str(PROGRAMS / program), *map(str, arguments)]
        stdout, stderr = (tmp_path / name for name in ("stdout", "stderr"))
        stdout.write_bytes(b"")
        stderr.write_bytes(b"")
        case = {
            "argv": argv,
            "env": {**whole, **(env or {})},
            "ranks": ranks,
            "stdout": str(stdout),
            "stderr": str(stderr),
        }
        assert imported.stdin is not None
        assert imported.stdout is not None
        print(json.dumps(case), file=imported.stdin, flush=True)
        code = int(imported.stdout.readline())
        return subprocess.CompletedProcess(argv, code, stdout.read_text(), stderr.read_text())

    return run
