from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def examined_megatron(examined_python: Path) -> Path:
    """The examined interpreter, where it has a megatron.core, too."""
    found = subprocess.run(
        [examined_python, "-c", "import importlib.util as u; u.find_spec('megatron.core').origin"],
        check=False,
        capture_output=True,
        env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
    )
    if found.returncode:
        pytest.skip("the examined interpreter has no megatron.core")
    return examined_python


@pytest.fixture(scope="session")
def core(examined_megatron: Path) -> Path:
    """The folder of megatron.core that the examined interpreter imports."""
    found = subprocess.run(
        [
            examined_megatron,
            "-c",
            "import importlib.util as u; print(u.find_spec('megatron.core').origin)",
        ],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
    )
    return Path(found.stdout.splitlines()[-1]).parent
