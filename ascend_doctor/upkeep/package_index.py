"""What package indexes say of a distribution, asked through pip: its versions, their metadata."""

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from packaging.requirements import InvalidRequirement, Requirement

from ascend_doctor.errors import DataError
from ascend_doctor.machine.scratch import temporary
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.schema import Component
from ascend_doctor.matrix.versions import normalised
from ascend_doctor.provision.running import CommandError, Runner

_DEADLINE = 300.0
_LISTED = re.compile(r"^Available versions: (.+)$", re.MULTILINE)
PYTHONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14")
ARCHES = ("aarch64", "x86_64")
# The manylinux tags of wheels of the matrix's components.
_GLIBC = ("2_17", "2_24", "2_27", "2_28", "2_31", "2_34", "2_35")


class _Metadata(msgspec.Struct):
    requires_dist: tuple[str, ...] = ()


class _Install(msgspec.Struct):
    metadata: _Metadata


class _Report(msgspec.Struct):
    install: tuple[_Install, ...]


class Interpreter(msgspec.Struct, frozen=True):
    python: str
    arch: str

    @property
    def options(self) -> tuple[str, ...]:
        platforms = (
            part for glibc in _GLIBC for part in ("--platform", f"manylinux_{glibc}_{self.arch}")
        )
        return ("--only-binary=:all:", "--python-version", self.python, *platforms)


@dataclass(frozen=True, kw_only=True)
class PackageIndex:
    """The indexes of the user's pip. ``python`` is an interpreter that has pip."""

    runner: Runner = field(default_factory=Runner)
    python: str = sys.executable

    def versions(self, distribution: str, interpreter: Interpreter) -> tuple[str, ...]:
        """The versions with a wheel for an interpreter, newest first; may be empty.

        Raises CommandError.
        """
        arguments = ("index", "versions", "--pre", distribution, *interpreter.options)
        try:
            answer = self._pip(*arguments)
        except CommandError as error:
            if "No matching distribution" in error.output:
                return ()
            raise
        listed = _LISTED.search(answer)
        return tuple(listed[1].split(", ")) if listed else ()

    def all_versions(self, distribution: str) -> dict[str, tuple[Interpreter, ...]]:
        """Every version, and the interpreters that it has a wheel for. Raises CommandError."""
        wheels: dict[str, list[Interpreter]] = {}
        for arch in ARCHES:
            for python in PYTHONS:
                interpreter = Interpreter(python, arch)
                for version in self.versions(distribution, interpreter):
                    wheels.setdefault(version, []).append(interpreter)
        return {version: tuple(interpreters) for version, interpreters in wheels.items()}

    def requirements(
        self, distribution: str, version: str, interpreter: Interpreter
    ) -> tuple[str, ...]:
        """A wheel's lines of Requires-Dist, without a download if the index has them.

        Raises CommandError, and DataError for an invalid report.
        """
        with temporary() as folder:
            report = Path(folder) / "report.json"
            self._pip(
                *("install", "-q", "--dry-run", "--ignore-installed", "--no-deps"),
                *("--report", str(report), "--target", folder),
                *interpreter.options,
                f"{distribution}=={version}",
            )
            return parse_report(report.read_bytes(), f"{distribution}=={version}")

    def _pip(self, *arguments: str) -> str:
        title = " ".join(("pip", *arguments[:2]))
        command = [self.python, "-m", "pip", *arguments]
        return self.runner.run(command, title=title, deadline=_DEADLINE)


def parse_report(report: bytes, requirement: str) -> tuple[str, ...]:
    """Requires-Dist in pip's installation report of one requirement. Raises DataError."""
    try:
        (install,) = msgspec.json.decode(report, type=_Report).install
    except (msgspec.MsgspecError, ValueError) as error:
        raise DataError(f"pip's report of {requirement}: {error}") from error
    return install.metadata.requires_dist


def read_bounds(
    catalog: Catalog, component: Component, requires: tuple[str, ...], interpreter: Interpreter
) -> dict[str, str]:
    """Specifiers by component of what a wheel requires on an interpreter, without extras.

    Requirements that the matrix has no component for are left out.
    """
    parts = {
        normalised(other.obtain.distribution): other.id
        for other in catalog.components
        if other.obtain.distribution and other.id != component.id
    }
    bounds: dict[str, list[str]] = {}
    for line in requires:
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            continue
        part = parts.get(normalised(requirement.name))
        if part and _is_asked(requirement, interpreter):
            bounds.setdefault(part, []).append(str(requirement.specifier))
    return {part: ",".join(filter(None, texts)) for part, texts in bounds.items()}


def _is_asked(requirement: Requirement, interpreter: Interpreter) -> bool:
    if requirement.marker is None:
        return True
    environment: Mapping[str, str] = {
        "python_version": interpreter.python,
        "python_full_version": f"{interpreter.python}.0",
        "platform_machine": interpreter.arch,
        "sys_platform": "linux",
        "platform_system": "Linux",
        "extra": "",
    }
    return requirement.marker.evaluate(dict(environment))
