"""A small world to build stacks in: real git repositories, real wheels, rows that speak of them."""

import base64
import hashlib
import io
import json
import os
import platform
import re
import subprocess
import sys
import tarfile
import textwrap
import zipfile
from dataclasses import dataclass
from pathlib import Path

import yaml

from ascend_doctor.matrix.catalog import Catalog
from tests.programs import run_program

PROGRAM = Path(sys.executable).with_name("ascend-doctor")
PASSWORD = "s3cret-Passw0rd"
MEGATRON_REFS = ("core_v0.12.1", "core_v0.15.3")
MINDSPEED_REFS = ("26.1.0_core_r0.12.1", "core_r0.15.3")
_SOURCES = [{"url": "the tests", "date": "2026-11-21"}]
_UNDECLARED = ("attrs", "psutil", "scipy", "sympy", "cffi", "pyyaml", "protobuf")
_BACKEND = """
import base64, hashlib, os, zipfile

def _wheel(folder, files):
    name = "mindspeed-VERSION-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
        archive.writestr("mindspeed-VERSION.dist-info/RECORD", "")
    return name

def build_editable(folder, config_settings=None, metadata_directory=None):
    return _wheel(folder, {
        "mindspeed.pth": os.getcwd() + "\\n",
        "mindspeed-VERSION.dist-info/METADATA":
            "Metadata-Version: 2.1\\nName: mindspeed\\nVersion: VERSION\\n",
        "mindspeed-VERSION.dist-info/WHEEL":
            "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    })
"""
# A project of the index, too; it needs more than a release does.
_BRIDGE = """
import os, zipfile

def _wheel(folder, files):
    name = "mcore_bridge-9.0.dev0-py3-none-any.whl"
    info = "mcore_bridge-9.0.dev0.dist-info"
    files |= {
        f"{info}/METADATA": "Metadata-Version: 2.1\\nName: mcore-bridge\\nVersion: 9.0.dev0\\n"
            "Requires-Dist: einops\\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
        f"{info}/RECORD": "",
    }
    with zipfile.ZipFile(os.path.join(folder, name), "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return name

def build_wheel(folder, config_settings=None, metadata_directory=None):
    return _wheel(folder, {"mcore_bridge/__init__.py": ""})

def build_editable(folder, config_settings=None, metadata_directory=None):
    return _wheel(folder, {"mcore_bridge.pth": os.getcwd() + "\\n"})
"""
_PROJECT = """[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""


# Two builds of one source are two files, as many a real package is.
_SOURCE_BACKEND = """
import os, time, zipfile

def build_wheel(folder, config_settings=None, metadata_directory=None):
    name = "NAME-VERSION-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as archive:
        archive.writestr("NAME.py", "built_at = %d" % time.time_ns())
        archive.writestr("NAME-VERSION.dist-info/METADATA",
            "Metadata-Version: 2.1\\nName: NAME\\nVersion: VERSION\\n")
        archive.writestr("NAME-VERSION.dist-info/WHEEL",
            "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        archive.writestr("NAME-VERSION.dist-info/RECORD", "")
    return name
"""


def git(*arguments: str | Path, at: Path | None = None) -> str:
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
        **{
            f"GIT_{who}_{what}": "x@example.org"
            for who in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        },
        "GIT_CONFIG_GLOBAL": os.devnull,
    }
    options = [] if at is None else ["-C", str(at)]
    done = run_program(["git", *options, *arguments], env=env)
    return done.stdout.strip()


def commit(repository: Path, files: dict[str, str], name: str) -> str:
    for path, text in files.items():
        target = repository / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(textwrap.dedent(text), "utf-8")
    git("add", "-A", at=repository)
    git("commit", "-q", "-m", name, at=repository)
    return git("rev-parse", "HEAD", at=repository)


def wheel(
    folder: Path, name: str, version: str, *requires: str, files: dict[str, str] | None = None
) -> Path:
    """A wheel with one module, and RECORD as pip wants it."""
    stem = name.replace("-", "_")
    info = f"{stem}-{version}.dist-info"
    content = {
        **(files or {f"{stem}/__init__.py": f"__version__ = {version!r}\n"}),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        + "".join(f"Requires-Dist: {need}\n" for need in requires),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(
        f"{path},sha256={_digest(text)},{len(text)}\n" for path, text in content.items()
    )
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{stem}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as archive:
        for path, text in content.items():
            archive.writestr(zipfile.ZipInfo(path), text)
        archive.writestr(zipfile.ZipInfo(f"{info}/RECORD"), f"{record}{info}/RECORD,,\n")
    return file


def source(folder: Path, name: str, version: str, *, more: str = "", backend: str = "") -> None:
    """A source distribution, of one module without a backend; no build tool is needed."""
    backend = backend or _SOURCE_BACKEND.replace("NAME", name).replace("VERSION", version)
    files = {
        "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        "pyproject.toml": _PROJECT,
        "backend.py": backend + more,
    }
    with tarfile.open(folder / f"{name}-{version}.tar.gz", "w:gz") as archive:
        for path, text in files.items():
            entry = tarfile.TarInfo(f"{name}-{version}/{path}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


@dataclass(frozen=True)
class World:
    """``mirrors`` has the repositories, ``index`` the wheels, ``rows`` the overlay."""

    root: Path

    @property
    def mirrors(self) -> Path:
        return self.root / "mirrors"

    @property
    def index(self) -> Path:
        return self.root / "index"

    @property
    def rows(self) -> Path:
        return self.root / "rows"

    @property
    def env(self) -> dict[str, str]:
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PIP_", "PYTHON", "VIRTUAL_ENV", "GIT_"))
        }
        return {
            **inherited,
            "HOME": str(self.root / "home"),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.index),
            "PIP_NO_CACHE_DIR": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
        }

    def arguments(self, megatron: str, prefix: Path) -> list[str]:
        return [
            *("setup", "--megatron", megatron, "--framework", "ms-swift"),
            *("--prefix", str(prefix), "--matrix", str(self.rows)),
            *("--git-mirror", str(self.mirrors), "--python", sys.executable, "--yes"),
            *("--prove", "0"),  # nothing of this world can be imported as what it is called
        ]

    def run(self, *arguments: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
        return run_program(
            [PROGRAM, *arguments], check=False, env={**self.env, **env}, timeout=1800, cwd=self.root
        )

    def setup(
        self, megatron: str, prefix: Path, *more: str | Path, **env: str
    ) -> subprocess.CompletedProcess[str]:
        return self.run(*self.arguments(megatron, prefix), *more, **env)


def list_imports(stack: Path) -> dict[str, str]:
    """The modules' files in the stack's interpreter, without PYTHONPATH."""
    code = (
        "import json, megatron.core, megatron.training, mindspeed, mcore_bridge, torch;"
        "print(json.dumps({one.__name__: one.__file__ for one in"
        " (megatron.core, megatron.training, mindspeed, mcore_bridge, torch)}))"
    )
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = run_program([stack / "venv/bin/python", "-c", code], env=env)
    paths: dict[str, str] = json.loads(done.stdout)
    return paths


def make(root: Path) -> World:
    world = World(root)
    (root / "home").mkdir(parents=True)
    megatron, mindspeed = world.mirrors / "Megatron-LM", world.mirrors / "MindSpeed"
    _index(world.index)
    commits = {**_megatron(megatron), **_mindspeed(mindspeed)}
    files = {"mindspeed_llm/__init__.py": "", "requirements.txt": "einops\n"}
    git("init", "-q", "-b", "master", world.mirrors / "MindSpeed-LLM")
    commits["mindspeed-llm"] = commit(world.mirrors / "MindSpeed-LLM", files, "first")
    _rows(world.rows, commits)
    bridge = {"mcore_bridge/__init__.py": "", "pyproject.toml": _PROJECT, "backend.py": _BRIDGE}
    git("init", "-q", "-b", "main", world.mirrors / "mcore-bridge")
    commit(world.mirrors / "mcore-bridge", bridge, "first")
    return world


def make_for_two(root: Path) -> World:
    """The same with torch and its needs for both architectures, and without a source."""
    world = make(root)
    for arch in ("aarch64", "x86_64"):
        needs = [
            f"only-{arch.replace('_', '-')}; platform_machine == '{arch}'"
            for arch in ("aarch64", "x86_64")
        ]
        file = wheel(world.index, "torch", "2.14.0", *needs)
        file.rename(file.with_name(f"torch-2.14.0-py3-none-manylinux_2_28_{arch}.whl"))
        wheel(world.index, f"only-{arch.replace('_', '-')}", "1.0")
    wheel(world.index, "torch-npu", "2.14.0", "torch==2.14.0")
    wheel(world.index, "decorator", "0.15.0")
    wheel(world.index, "torchvision", "0.29.0", "torch==2.14.0")
    file = world.rows / "components/torch-npu.yaml"
    rows = yaml.safe_load(file.read_text())
    rows["releases"][0] |= {
        "version": "2.14.0",
        "requires": [{"component": "torch", "versions": "==2.14.0"}],
    }
    file.write_text(yaml.safe_dump(rows))
    file = world.rows / "components/mindspeed.yaml"
    file.write_text(file.read_text().replace("==2.13.0", "==2.14.0"))
    return world


def make_upstream(root: Path, megatron: Path, mindspeed: Path) -> World:
    """The same with clones from upstream, and with setuptools and wheel, which build MindSpeed."""
    world = World(root)
    for folder in (root / "home", world.mirrors):
        folder.mkdir(parents=True)
    (world.mirrors / "Megatron-LM").symlink_to(megatron)
    (world.mirrors / "MindSpeed").symlink_to(mindspeed)
    commits = {
        ref: git("rev-parse", f"{ref}^{{commit}}", at=repository)
        for repository, refs in ((megatron, MEGATRON_REFS), (mindspeed, MINDSPEED_REFS))
        for ref in refs
    }
    _index(world.index)
    _rows(world.rows, {**commits, "mindspeed-llm": "0" * 40})
    there = {file.name.split("-")[0] for file in world.index.iterdir()}
    for ref in MINDSPEED_REFS:
        for line in git("show", f"{ref}:requirements.txt", at=mindspeed).splitlines():
            name = re.split(r"[<>=!~\s]", line, maxsplit=1)[0]
            if name and name != "wheel" and name.replace("-", "_") not in there:
                wheel(world.index, name, "1.0")
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "-q", "-d", world.index, "setuptools", "wheel"],
        check=True,
        timeout=300,
    )
    return world


def _megatron(folder: Path) -> dict[str, str]:
    git("init", "-q", "-b", "main", folder)
    commits = {}
    for number in ("0.12.1", "0.15.3"):
        files = {
            "megatron/core/__init__.py": "from .package_info import __version__\n",
            "megatron/core/package_info.py": f"__version__ = '{number}'\n",
            "megatron/training/__init__.py": "",
            # Unneeded, incompressible history.
            "history.txt": hashlib.shake_256(number.encode()).hexdigest(100_000),
        }
        commit(folder, files, f"towards {number}")
        commits[f"core_v{number}"] = commit(folder, {"history.txt": "gone\n"}, number)
        git("tag", "-a", "-m", number, f"core_v{number}", at=folder)
    return commits


def _mindspeed(folder: Path) -> dict[str, str]:
    git("init", "-q", "-b", "master", folder)
    commit(folder, {"README.md": "MindSpeed\n"}, "first")
    commits = {}
    for branch, number in zip(MINDSPEED_REFS, ("0.12.1", "0.15.3"), strict=True):
        git("checkout", "-q", "-b", branch, "master", at=folder)
        files = {
            "mindspeed/__init__.py": "",
            "requirements.txt": "numpy<=1.26.0\nattrs\n",
            "pyproject.toml": _PROJECT,
            "backend.py": _BACKEND.replace("VERSION", number),
        }
        commits[branch] = commit(folder, files, number)
    git("checkout", "-q", "master", at=folder)
    return commits


def _index(folder: Path) -> None:
    for name in (*_UNDECLARED, "requests", "absl-py", "transformers", "peft"):
        wheel(folder, name, "4.50.0" if name == "transformers" else "0.15.0")
    source(folder, "decorator", "0.15.0")
    wheel(folder, "pybind11", "2.13.6")
    wheel(folder, "einops", "0.8.0")
    torchvision = "0.28.0"
    wheel(folder, "torchvision", torchvision, "torch==2.13.0")
    for version in ("1.26.0", "1.26.4", "2.1.0"):
        wheel(folder, "numpy", version)
    # The local label needs a file for both machines; the row names which.
    for version in ("2.13.0", "2.13.0+cpu"):
        wheel(folder, "torch", version)
    wheel(folder, "torch-npu", "2.13.0", "torch==2.13.0.*")
    for version in ("1.1.0", "1.4.3"):
        wheel(folder, "mcore-bridge", version, "megatron-core>=0.12,<0.20", "transformers", "peft")
    for version in ("4.0.4", "4.2.3"):
        wheel(folder, "ms-swift", version, "transformers", files={"swift/__init__.py": ""})
    # Traps: pip takes them wherever it may.
    for version in ("0.15.3", "0.15.9", "0.12.1"):
        wheel(folder, "megatron-core", version, files={"megatron/core/trap.py": ""})
    wheel(folder, "mindspeed", "0.0.1.dev1")


def _rows(folder: Path, commits: dict[str, str]) -> None:
    (folder / "components").mkdir(parents=True)
    torch = "2.13.0+cpu" if platform.machine() == "x86_64" else "2.13.0"
    need = [{"component": "torch-npu", "versions": "==2.13.0"}]
    bound = [{"component": "numpy", "versions": "<=1.26.0"}]
    releases: dict[str, list[dict[str, object]]] = {
        "megatron-lm": [
            {
                "version": f"core_v{version}",
                "ref": f"core_v{version}",
                "commit": commits[f"core_v{version}"],
                "provides": {"megatron-core": version},
                "attributes": {"core": version, "gdn": "no"},
            }
            for version in ("0.15.3", "0.12.1")
        ],
        "mindspeed": [
            {
                "version": branch,
                "ref": branch,
                "commit": commits[branch],
                "moving": True,
                "reports": core,
                "attributes": {"core": core},
                "requires": [
                    {"component": "megatron-core", "versions": f"=={core}"},
                    *need,
                    *bound,
                ],
            }
            for branch, core in (("core_r0.15.3", "0.15.3"), ("26.1.0_core_r0.12.1", "0.12.1"))
        ],
        # Run in place; its ref is a commit, as frameworks pin some of MindSpeed.
        "mindspeed-llm": [
            {
                "version": "26.1.0",
                "ref": commits["mindspeed-llm"],
                "commit": commits["mindspeed-llm"],
                "requires": [{"component": "mindspeed", "versions": "==26.1.0_core_r0.12.1"}],
            }
        ],
        "torch-npu": [
            {"version": "2.13.0", "requires": [{"component": "torch", "versions": f"=={torch}"}]}
        ],
        "mcore-bridge": [
            {
                "version": version,
                "requires": [{"component": "megatron-core", "versions": f"=={core}"}],
            }
            for version, core in (("1.4.3", "0.15.3"), ("1.1.0", "0.12.1"))
        ],
        "ms-swift": [
            {
                "version": version,
                "requires": [{"component": "mcore-bridge", "versions": f"=={bridge}"}],
            }
            for version, bridge in (("4.2.3", "1.4.3"), ("4.0.4", "1.1.0"))
        ],
    }
    for name, rows in releases.items():
        content = {
            "schema": 1,
            "id": name,
            "releases": [{**row, "sources": _SOURCES} for row in rows],
        }
        text = yaml.safe_dump(content, sort_keys=False)
        (folder / "components" / f"{name}.yaml").write_text(text, "utf-8")
    _hide_sets(folder / "sets")


def _hide_sets(folder: Path) -> None:
    """Nobody ran anything here: the shipped sets are of a framework that nobody asks for."""
    rows = [
        {"id": row.id, "title": "none", "framework": "none", "kind": "guide", "pins": {}}
        for row in Catalog().sets
    ]
    content = {"schema": 1, "sets": [{**row, "sources": _SOURCES} for row in rows]}
    folder.mkdir()
    (folder / "none.yaml").write_text(yaml.safe_dump(content), "utf-8")
