"""A real environment without packages."""

import venv
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def bare_venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("examined") / "venv"
    venv.create(folder, with_pip=False, symlinks=True)
    return folder


@pytest.fixture
def site(bare_venv: Path) -> Iterator[Path]:
    """The empty site-packages of a real environment."""
    (folder,) = bare_venv.glob("lib/python3*/site-packages")
    yield folder
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
