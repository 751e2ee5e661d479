from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import forks
from tests.programs import on_cpu, run_program

_MEGATRON = tuple(
    f"megatron.core.{name}"
    for name in (
        *("dist_checkpointing", "distributed", "models.gpt.gpt_layer_specs"),
        *("models.gpt.gpt_model", "optimizer", "pipeline_parallel"),
    )
)


@pytest.fixture(scope="session")
def forked_python(
    examined_python: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """The examined interpreter for the CPU, whose processes have imported torch."""
    env = on_cpu(OMP_NUM_THREADS="1")
    folder = tmp_path_factory.mktemp("forks")
    with forks.interpreter(examined_python, folder, env, "torch", *_MEGATRON) as path:
        yield path


@pytest.fixture(scope="session")
def core(examined_python: Path) -> Path:
    """The folder of megatron.core that the examined interpreter imports."""
    code = "import importlib.util as u; print(u.find_spec('megatron.core').origin)"
    completed = run_program([examined_python, "-c", code], check=False, env=on_cpu())
    if completed.returncode:
        pytest.skip("the examined interpreter has no megatron.core")
    return Path(completed.stdout.splitlines()[-1]).parent


@pytest.fixture(scope="session")
def examined_megatron(examined_python: Path, core: Path) -> Path:  # noqa: ARG001 - skips
    """The examined interpreter, where it has a megatron.core, too."""
    return examined_python


@pytest.fixture(scope="session")
def forked_megatron(forked_python: Path, core: Path) -> Path:  # noqa: ARG001 - skips
    """The same where it has a megatron.core; each process imports that from its own path."""
    return forked_python
