"""Fetches needs: clones with git, environments and folders with pip, into .acceptance/."""

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.acceptance import clones
from tests.acceptance.needs import COMPLETE, Environment, Manifest, Need
from tests.programs import run_program

_SECONDS = 3600
# torch's requirements beside CUDA.
_OF_TORCH = ("filelock", "typing-extensions", "sympy", "networkx", "jinja2", "fsspec")
_GIT = {"GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}


def fetch(manifest: Manifest, need: Need, source: str) -> str:
    """Why fetching failed, or ""."""
    reasons = [
        _clone(name, source or manifest.addresses.get(name, "https://github.com"))
        for name in need.missing()
    ]
    if not need.paths() and not need.is_table and not need.repositories:
        try:
            _make(need)
        except (OSError, subprocess.SubprocessError) as error:
            reasons.append(_describe(error))
    return "; ".join(filter(None, reasons))


def _describe(error: Exception) -> str:
    lines = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
    return lines[-1] if lines else type(error).__name__


def _run(*command: str | Path) -> None:
    env = {name: text for name, text in os.environ.items() if not name.startswith("GIT_")} | _GIT
    run_program(command, timeout=_SECONDS, env=env)


def _clone(repository: str, source: str) -> str:
    """A mirror clone; it gets its name when it is complete."""
    target = clones.folder() / repository.replace("/", "+") / "repo"
    if Path(source).is_dir():
        path = clones.path_in(Path(source), repository)
        if path is None:
            return f"{repository}: not in {source}"
        source = str(path.absolute())
    elif not source.endswith(".git"):
        source = f"{source.rstrip('/')}/{repository}.git"
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        try:
            _run("git", "clone", "--mirror", "--template=", source, Path(scratch, "repo"))
        except subprocess.SubprocessError as error:
            return f"{repository}: {_describe(error)}"
        Path(scratch, "repo").rename(target)
    return ""


def _pip(python: str | Path, *words: str) -> None:
    _run(python, "-m", "pip", "--disable-pip-version-check", "-q", *words)


def _make(need: Need) -> None:
    if not (need.environments or need.pip):
        raise FileNotFoundError(f"nothing can fetch it: set {need.variable}")
    for path, name in zip(need.fetched(), need.environments or [""], strict=True):
        if (path / COMPLETE).exists():
            continue
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        if name:
            _make_environment(path, need.environments[name])
        for line in need.pip:
            _pip(sys.executable, *line.replace("{folder}", str(path)).split())
        (path / COMPLETE).touch()


def _make_environment(path: Path, environment: Environment) -> None:
    _run(sys.executable, "-m", "venv", path)
    python = path / "bin/python"
    _install_torch(python, path, environment.torch)
    for line in environment.installs:
        _pip(python, "install", *line.split())


def _install_torch(python: Path, path: Path, version: str) -> None:
    """torch without CUDA; the index has a CPU build only for aarch64."""
    if platform.machine() != "x86_64":
        _pip(python, "install", f"torch=={version}")
        return
    with tempfile.TemporaryDirectory(dir=path) as folder:
        _pip(python, "download", "--no-deps", "-d", folder, f"torch=={version}")
        (wheel,), (site,) = Path(folder).glob("torch-*"), path.glob("lib/python3*/site-packages")
        _run(sys.executable, "-m", "tests.acceptance.simulator.cpu_torch", wheel, site)
    program = python.with_name("torchrun")
    program.write_text(f"#!{python}\nfrom torch.distributed.run import main\n\nmain()\n", "utf-8")
    program.chmod(0o755)
    _pip(python, "install", *_OF_TORCH)
