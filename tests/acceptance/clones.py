"""Clones of other projects, read by git alone."""

import os
import subprocess
from pathlib import Path

import pytest

VARIABLE = "ASCEND_DOCTOR_TEST_CLONES"
# `python -m tests.acceptance --fetch` writes here.
FETCHED = Path(__file__).parents[2] / ".acceptance"
_SECONDS = 120


def folder() -> Path:
    return Path(os.environ.get(VARIABLE) or FETCHED / "clones")


def path_in(parent: Path, repository: str) -> Path | None:
    """A clone of OWNER/NAME, with or without a work tree."""
    flat = repository.replace("/", "+")
    names = (f"{flat}/repo", flat, f"{flat}.git", repository, f"{repository}.git")
    name = repository.rpartition("/")[2]
    for candidate in (*names, name, f"{name}.git"):
        path = parent / candidate
        if (path / "objects").is_dir() or (path / ".git").exists():
            return path
    return None


def clone(repository: str) -> Path:
    path = path_in(folder(), repository)
    if path is None:
        pytest.skip(f"no clone of {repository} in {folder()}")
    return path


def git(path: Path, *arguments: str) -> bytes:
    command = ["git", "-C", str(path), *arguments]
    return subprocess.run(command, check=True, capture_output=True, timeout=_SECONDS).stdout


def show(repository: str, path: str, ref: str = "HEAD") -> str:
    return git(clone(repository), "show", f"{ref}:{path}").decode()


def unpack(into: Path, repository: str, ref: str, *below: str) -> Path:
    """Write a commit's files, all or those ``below``."""
    archive = git(clone(repository), "archive", ref, *below)
    into.mkdir(parents=True, exist_ok=True)
    subprocess.run(["tar", "x", "-C", into], check=True, input=archive, timeout=_SECONDS)
    return into
