"""The manifest: what the acceptance tests need beside this repository, and whether it is there."""

import os
from pathlib import Path

import msgspec

from ascend_doctor.errors import DataError
from ascend_doctor.machine.parsing import check_yaml
from tests.acceptance import clones
from tests.acceptance.clones import FETCHED

MANIFEST = Path(__file__).with_name("manifest.yaml")
WHOLE = "ASCEND_DOCTOR_TEST_WHOLE"
COMPLETE = ".complete"  # in a folder that was fetched to its end


class Environment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A virtual environment: version of a CPU build of torch, and lines of pip arguments."""

    torch: str
    installs: tuple[str, ...]


class Need(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``files`` are test files below tests/, or tests in them after ::, ``minutes`` what they take.

    It is clones of ``repositories``, or what ``variable`` names: interpreters, of which
    ``environments`` can be made, or a folder that ``pip`` can fill. Otherwise only time.
    """

    id: str
    what: str
    files: tuple[str, ...]
    minutes: float
    repositories: tuple[str, ...] = ()
    variable: str = ""
    environments: dict[str, Environment] = {}
    pip: tuple[str, ...] = ()

    @property
    def is_table(self) -> bool:
        return not (self.repositories or self.variable)

    def missing(self) -> tuple[str, ...]:
        parent = clones.folder()
        return tuple(name for name in self.repositories if not clones.path_in(parent, name))

    def fetched(self) -> tuple[Path, ...]:
        """The environments' folders, or the one that pip fills."""
        folders = [FETCHED / "environments" / name for name in self.environments]
        return tuple(folders) or (FETCHED / "folders" / self.id,)

    def paths(self) -> tuple[str, ...]:
        """What the variable names (like PATH), else what was fetched."""
        named = filter(None, os.environ.get(self.variable, "").split(os.pathsep))
        program = "bin/python" if self.environments else ""
        return tuple(named) or tuple(
            str(path / program) for path in self.fetched() if (path / COMPLETE).exists()
        )

    def absence(self) -> str:
        """Why none of its tests can run, or ""."""
        missing, paths = self.missing(), self.paths()
        if self.repositories:
            reason = f"no clone of {', '.join(missing[:3])} in {clones.folder()}"
            return reason if len(missing) == len(self.repositories) else ""
        if self.is_table or (paths and all(map(os.path.exists, paths))):
            return ""
        return f"{self.variable}: no path exists: {', '.join(paths) or 'not set'}"


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``addresses``: repositories not cloned from GitHub."""

    needs: tuple[Need, ...]
    addresses: dict[str, str] = {}

    def need(self, name: str) -> Need:
        for need in self.needs:
            if need.id == name:
                return need
        raise DataError(f"no need is called {name!r}: {', '.join(n.id for n in self.needs)}")

    def absences(self, file: str) -> list[str]:
        needs = (need for need in self.needs if file in need.files)
        return [f"{need.id}: {reason}" for need in needs if (reason := need.absence())]


def load(path: Path = MANIFEST) -> Manifest:
    """Raises DataError that names the file and the wrong field."""
    try:
        text = path.read_text("utf-8")
        check_yaml(text, str(path))
        manifest = msgspec.yaml.decode(text, type=Manifest)
    except (OSError, msgspec.ValidationError) as error:
        raise DataError(f"{path}: {error}") from error
    ids = [need.id for need in manifest.needs]
    if twice := sorted({name for name in ids if ids.count(name) > 1}):
        raise DataError(f"{path}: needs with the same id: {', '.join(twice)}")
    return manifest


def first_path(name: str) -> str:
    """The interpreter or folder of a need, or ""."""
    return next(iter(load().need(name).paths()), "")
