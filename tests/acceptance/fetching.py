"""Fetches needs: clones with git, environments and folders with pip, into .acceptance/."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.acceptance import clones
from tests.acceptance.needs import (
    Clones,
    Environment,
    Folder,
    Interpreters,
    Manifest,
    Need,
    is_ready,
)

_CLONE_SECONDS, _PIP_SECONDS = 1800, 3600
# What torch's metadata asks for beside CUDA.
_OF_TORCH = ("filelock", "typing-extensions", "sympy", "networkx", "jinja2", "fsspec")
_GIT = {"GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}


def fetch(manifest: Manifest, need: Need, source: str) -> str:
    """Fetch what is absent of a need; gives why that failed, or ""."""
    try:
        match need:
            case Clones():
                return _clone_all(manifest, need, source)
            case Interpreters():
                for name, environment in need.environments.items():
                    _make_environment(need.fetched()[name], environment)
            case Folder():
                _fill_folder(need)
    except (OSError, subprocess.SubprocessError) as error:
        return _describe(error)
    return ""


def _describe(error: Exception) -> str:
    lines = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
    return lines[-1] if lines else type(error).__name__


def _run(command: list[str], seconds: int) -> None:
    env = {name: text for name, text in os.environ.items() if not name.startswith("GIT_")}
    subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=seconds, env={**env, **_GIT}
    )


def _clone_all(manifest: Manifest, need: Clones, source: str) -> str:
    """Clone each absent repository; gives why some could not be cloned."""
    reasons = (_clone_or_reason(name, source, manifest.address(name)) for name in need.missing())
    return "; ".join(filter(None, reasons))


def _clone_or_reason(repository: str, source: str, upstream: str) -> str:
    try:
        _clone(repository, source, upstream)
    except (OSError, subprocess.SubprocessError) as error:
        return f"{repository}: {_describe(error)}"
    return ""


def _clone(repository: str, source: str, upstream: str) -> None:
    """A mirror clone in the folder of clones, renamed into its name when it is complete."""
    target = clones.folder() / repository.replace("/", "+") / "repo"
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        part = Path(scratch, "repo")
        address = _address(repository, source) if source else upstream
        _run(["git", "clone", "--mirror", "--template=", address, str(part)], _CLONE_SECONDS)
        part.rename(target)


def _address(repository: str, source: str) -> str:
    """Where a folder or an address has a repository."""
    if not Path(source).is_dir():
        return f"{source.rstrip('/')}/{repository}.git"
    path = clones.path_in(Path(source), repository)
    if path is None:
        raise FileNotFoundError(f"not in {source}")
    return str(path.absolute())


def _pip(python: Path, *words: str) -> None:
    _run([str(python), "-m", "pip", "--disable-pip-version-check", "-q", *words], _PIP_SECONDS)


def _make_environment(path: Path, environment: Environment) -> None:
    if is_ready(path):
        return
    shutil.rmtree(path, ignore_errors=True)
    _run([sys.executable, "-m", "venv", str(path)], _PIP_SECONDS)
    python = path / "bin/python"
    _install_torch(python, path, environment.torch)
    for line in environment.installs:
        _pip(python, "install", *line.split())
    (path / ".complete").touch()


def _install_torch(python: Path, path: Path, version: str) -> None:
    """torch without CUDA; the package index has a CPU build for aarch64 alone."""
    if platform.machine() != "x86_64":
        _pip(python, "install", f"torch=={version}")
        return
    with tempfile.TemporaryDirectory(dir=path) as folder:
        _pip(python, "download", "--no-deps", "-d", folder, f"torch=={version}")
        (wheel,) = Path(folder).glob("torch-*.whl")
        (site,) = path.glob("lib/python3*/site-packages")
        module = "tests.acceptance.simulator.cpu_torch"
        _run([sys.executable, "-m", module, str(wheel), str(site)], _PIP_SECONDS)
    _pip(python, "install", *_OF_TORCH)


def _fill_folder(need: Folder) -> None:
    path = need.fetched()
    if need.path():
        return
    if not need.pip:
        raise FileNotFoundError(f"nothing can fetch it: set {need.variable} to a folder")
    path.mkdir(parents=True, exist_ok=True)
    for line in need.pip:
        _pip(Path(sys.executable), *(word.replace("{folder}", str(path)) for word in line.split()))
    (path / ".complete").touch()
