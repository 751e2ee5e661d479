"""A distribution that is built from its source beside torch, as vLLM is for NPUs."""

from pathlib import Path

import pytest

from ascend_doctor.provision import lock as locks
from ascend_doctor.provision.lock import LockedSource
from ascend_doctor.provision.wheels import hash_file
from tests.provision import small_world
from tests.provision.small_world import World

pytestmark = pytest.mark.slow

# As vLLM's setup.py: it asks torch, and the build target is part of its version.
_BACKEND = """
import os, zipfile
import torch

def build_wheel(folder, config_settings=None, metadata_directory=None):
    version = "0.11.0" + ("+empty" if os.environ.get("VLLM_TARGET_DEVICE") == "empty" else "")
    name = f"vllm-{version}-py3-none-any.whl"
    info = f"vllm-{version}.dist-info"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as archive:
        archive.writestr("vllm/__init__.py", f"torch = {torch.__version__!r}")
        archive.writestr(f"{info}/METADATA",
            f"Metadata-Version: 2.1\\nName: vllm\\nVersion: {version}\\nRequires-Dist: triton\\n")
        archive.writestr(f"{info}/WHEEL",
            "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        archive.writestr(f"{info}/RECORD", "")
    return name
"""
_BUILD = {
    "setuptools": "79.0",
    "setuptools-scm": "8.1",
    "setuptools-rust": "1.10",
    "cmake": "3.30",
    "ninja": "1.11",
    "packaging": "24.2",
    "wheel": "0.45",
    "jinja2": "3.1",
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    world = small_world.make(tmp_path_factory.mktemp("world"))
    for name, version in _BUILD.items():
        small_world.wheel(world.index, name, version)
    # Its wheel is for another torch; triton is not what stands beside triton-ascend.
    small_world.wheel(world.index, "vllm", "0.11.0", "torch==2.8.0")
    small_world.wheel(world.index, "triton", "3.9.0")
    small_world.wheel(world.index, "triton-ascend", "3.2.0", files={"triton/__init__.py": ""})
    small_world.source(world.index, "vllm", "0.11.0", backend=_BACKEND)
    return world


def setup(world: World, prefix: Path) -> str:
    """Its output; its exit code is that of this machine's check."""
    parts = ("--with", "vllm==0.11.0", "--with", "triton-ascend==3.2.0")
    done = world.setup("0.15.3", prefix, *parts, VLLM_TARGET_DEVICE="empty")
    assert "failed" not in done.stderr, done.stderr
    return done.stderr


def test_it_is_built_beside_torch_and_from_its_lock_again(world: World, tmp_path: Path) -> None:
    prefix, again = tmp_path / "p", tmp_path / "q"
    setup(world, prefix)
    stack = prefix / "current"
    lock = locks.read(stack)
    wheels = {wheel.name: wheel for wheel in lock.wheels}
    sha256 = hash_file(world.index / "vllm-0.11.0.tar.gz")
    assert wheels["vllm"].version == "0.11.0+empty"
    assert wheels["vllm"].source == LockedSource(file="vllm-0.11.0.tar.gz", sha256=sha256)
    (module,) = stack.glob("venv/lib/python3*/site-packages/vllm/__init__.py")
    assert wheels["torch"].version in module.read_text()
    assert "triton" not in wheels
    assert not list(stack.glob(".state/sources"))
    # Nothing is built where it stands.
    assert "\nbuilt " not in setup(world, prefix)
    # Elsewhere it is built of the same source.
    arguments: list[str | Path] = ["setup", "--locked", "--lock", stack / locks.FILE, "--yes"]
    arguments += ["--prefix", again, "--git-mirror", world.mirrors, "--matrix", world.rows]
    done = world.run(*arguments, "--prove", "0")
    assert "failed" not in done.stderr, done.stderr
    there = {wheel.name: wheel for wheel in locks.read(again / "current").wheels}
    assert there["vllm"].source == wheels["vllm"].source


def test_a_version_has_to_be_named(world: World, tmp_path: Path) -> None:
    done = world.setup("0.15.3", tmp_path / "p", "--with", "vllm")
    assert done.returncode == 2
    assert "name a version, as in --with vllm==" in done.stderr
    assert not (tmp_path / "p").exists()
