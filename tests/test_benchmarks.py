"""Each benchmark in its smallest form, down to its ratio. No time is asserted."""

import re
import sys
from pathlib import Path

import pytest

from tests.programs import run_program

FOLDER = Path(__file__).parent.parent / "benchmarks"
# A benchmark's needs beside the doctor: "torch" is an interpreter with torch and torch_npu.
NEEDS = {
    **dict.fromkeys(("diagnose", "env", "merge", "solve"), ""),
    "setup": "a small world of repositories",
    **dict.fromkeys(("level0", "level3", "simulator_build", "simulator_step"), "torch"),
}
RATIO = re.compile(r"^.*(?:ratio|times the nodes|over twice the bare).*\b\d+\.\d+", re.MULTILINE)


def run_smallest(name: str, *words: str | Path) -> None:
    done = run_program(
        [sys.executable, FOLDER / f"{name}.py", "--smoke", *words], check=False, timeout=500
    )
    assert done.returncode == 0, done.stderr
    assert RATIO.search(done.stdout), done.stdout


def names(need: str) -> list[str]:
    return sorted(name for name, value in NEEDS.items() if value == need)


@pytest.mark.slow
@pytest.mark.parametrize("name", names(""))
def test_a_benchmark_runs(name: str) -> None:
    run_smallest(name)


@pytest.mark.slow
def test_the_benchmark_of_setup_runs() -> None:
    run_smallest("setup")


@pytest.mark.parametrize("name", names("torch"))
def test_a_benchmark_with_torch_runs(
    name: str, examined_python: Path, simulator_cache: Path
) -> None:
    assert simulator_cache
    run_smallest(name, "--python", examined_python)


def test_every_benchmark_has_a_smallest_run() -> None:
    assert {path.stem for path in FOLDER.glob("[!_]*.py")} == NEEDS.keys()
