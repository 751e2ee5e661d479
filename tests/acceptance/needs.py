"""The manifest: what the acceptance tests need beside this repository, and whether it is there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import msgspec

from ascend_doctor.errors import DataError
from ascend_doctor.machine.parsing import check_yaml
from tests.acceptance import clones
from tests.acceptance.clones import FETCHED

HERE = Path(__file__).parent
MANIFEST = HERE / "manifest.yaml"
WHOLE = "ASCEND_DOCTOR_TEST_WHOLE"


class _Need(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"
):
    """``files`` are the test files that need it, below tests/; ``minutes`` is their duration."""

    id: str
    what: str
    files: tuple[str, ...]
    minutes: float


class Clones(_Need, frozen=True, kw_only=True, tag="clones"):
    """Git repositories in the folder of clones, each with all branches and tags."""

    repositories: tuple[str, ...]

    @property
    def variable(self) -> str:
        return clones.VARIABLE

    def missing(self) -> tuple[str, ...]:
        parent = clones.folder()
        return tuple(name for name in self.repositories if not clones.path_in(parent, name))

    def absence(self) -> str:
        """Why no test of this need can run; "" where some can."""
        missing = self.missing()
        if len(missing) < len(self.repositories):
            return ""
        more = f" and {len(missing) - 3} others" if len(missing) > 3 else ""
        return f"no clone of {', '.join(missing[:3])}{more} in {clones.folder()}"

    def source(self) -> str:
        return f"git clone: {', '.join(self.repositories)}"


class Environment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A virtual environment: a CPU build of torch, and lines of arguments for pip install."""

    torch: str
    installs: tuple[str, ...]


class Interpreters(_Need, frozen=True, kw_only=True, tag="interpreters"):
    """Python interpreters with packages; the variable joins several as PATH does."""

    variable: str
    environments: dict[str, Environment]

    def fetched(self) -> dict[str, Path]:
        return {name: FETCHED / "environments" / name for name in self.environments}

    def paths(self) -> tuple[str, ...]:
        named = os.environ.get(self.variable, "").split(os.pathsep)
        ready = (str(path / "bin/python") for path in self.fetched().values() if is_ready(path))
        return tuple(filter(None, named)) or tuple(ready)

    def absence(self) -> str:
        absent = [path for path in self.paths() if not os.access(path, os.X_OK)]
        if absent:
            return f"{self.variable}: no interpreter at {', '.join(absent)}"
        return "" if self.paths() else f"{self.variable} names no interpreter"

    def source(self) -> str:
        first = next(iter(self.environments.values()))
        return f"a virtual environment with torch {first.torch} and {' '.join(first.installs)}"


class Folder(_Need, frozen=True, kw_only=True, tag="folder"):
    """A folder of files: what pip writes there, or one that you name."""

    variable: str
    pip: tuple[str, ...] = ()

    def fetched(self) -> Path:
        return FETCHED / "folders" / self.id

    def path(self) -> str:
        named = os.environ.get(self.variable, "")
        return named or (str(self.fetched()) if is_ready(self.fetched()) else "")

    def absence(self) -> str:
        path = self.path()
        if path and not Path(path).is_dir():
            return f"{self.variable}: no folder at {path}"
        return "" if path else f"{self.variable} names no folder"

    def source(self) -> str:
        return f"pip {' '.join(self.pip)}" if self.pip else f"name it: {self.variable}=FOLDER"


class Tables(_Need, frozen=True, kw_only=True, tag="tables"):
    """Nothing but time: all rows of tables of which the ordinary tests run some."""

    @property
    def variable(self) -> str:
        return WHOLE

    def absence(self) -> str:
        return ""

    def source(self) -> str:
        return "nothing but time"


Need: TypeAlias = Clones | Interpreters | Folder | Tables


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``addresses`` are those of repositories that are not cloned from GitHub."""

    needs: tuple[Need, ...]
    addresses: dict[str, str] = {}

    def address(self, repository: str) -> str:
        return self.addresses.get(repository, f"https://github.com/{repository}.git")

    def need(self, name: str) -> Need:
        for need in self.needs:
            if need.id == name:
                return need
        raise DataError(f"no need is called {name!r}: {', '.join(n.id for n in self.needs)}")

    def of_file(self, file: str) -> tuple[Need, ...]:
        """What a test file needs, all of it."""
        return tuple(need for need in self.needs if file in need.files)


def load(path: Path = MANIFEST) -> Manifest:
    """Read the manifest. Raises DataError that names the file and the wrong field."""
    try:
        text = path.read_text("utf-8")
        check_yaml(text, str(path))
        manifest = msgspec.yaml.decode(text, type=Manifest)
    except (OSError, msgspec.ValidationError) as error:
        raise DataError(f"{path}: {error}") from error
    ids = [need.id for need in manifest.needs]
    twice = sorted({name for name in ids if ids.count(name) > 1})
    if twice:
        raise DataError(f"{path}: needs with the same id: {', '.join(twice)}")
    return manifest


def is_ready(path: Path) -> bool:
    """Whether what was fetched is complete."""
    return (path / ".complete").exists()


def interpreters(name: str) -> tuple[str, ...]:
    """The interpreters of a need; none where it is absent."""
    need = load().need(name)
    assert isinstance(need, Interpreters)
    return need.paths()


def interpreter(name: str) -> str:
    """The interpreter of a need; "" where it is absent."""
    return next(iter(interpreters(name)), "")


def named_folder(name: str) -> str:
    """The folder of a need; "" where it is absent."""
    need = load().need(name)
    assert isinstance(need, Folder)
    return need.path()


def absences(file: str) -> Iterator[str]:
    """Why a test file cannot run."""
    for need in load().of_file(file):
        if reason := need.absence():
            yield f"{need.id}: {reason}"
