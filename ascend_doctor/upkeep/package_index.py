"""What package indexes say of a distribution, asked through pip: its versions, their metadata."""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import msgspec

from ascend_doctor.errors import DataError
from ascend_doctor.machine.scratch import temporary
from ascend_doctor.provision.running import CommandError, Runner

_DEADLINE = 300.0
_LISTED = re.compile(r"^Available versions: (.+)$", re.MULTILINE)
PYTHONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14")
ARCHES = ("aarch64", "x86_64")
# The manylinux tags of wheels of the matrix's components.
_GLIBC = ("2_17", "2_24", "2_27", "2_28", "2_31", "2_34", "2_35")


class _Metadata(msgspec.Struct):
    requires_dist: tuple[str, ...] = ()
    requires_python: str = ""


class _Download(msgspec.Struct):
    url: str = ""


class _Install(msgspec.Struct):
    metadata: _Metadata
    download_info: _Download


class _Report(msgspec.Struct):
    install: tuple[_Install, ...]


@dataclass(frozen=True, kw_only=True)
class WheelMetadata:
    """``requires`` are the lines of Requires-Dist; ``file`` is the wheel that was read."""

    requires: tuple[str, ...]
    requires_python: str
    file: str


@dataclass(frozen=True)
class Interpreter:
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
    """The indexes of the user's pip. ``python`` is an interpreter that has pip.

    ``before`` leaves out uploads from that day on (ISO 8601); needs pip 26.
    """

    runner: Runner = field(default_factory=Runner)
    python: str = sys.executable
    before: str = ""

    def versions(self, distribution: str, interpreter: Interpreter) -> tuple[str, ...]:
        """The versions with a wheel for an interpreter, newest first; may be empty.

        Raises CommandError.
        """
        arguments = ("index", "versions", "--pre", distribution, *interpreter.options)
        try:
            answer = self._pip(*arguments, *self._day)
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

    def metadata(self, distribution: str, version: str, interpreter: Interpreter) -> WheelMetadata:
        """A wheel's own metadata, without a download if the index has it.

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

    @cached_property
    def _day(self) -> tuple[str, ...]:
        return ("--uploaded-prior-to", f"{self.before}T00:00:00Z") if self.before else ()

    def _pip(self, *arguments: str) -> str:
        title = " ".join(("pip", *arguments[:2]))
        command = [self.python, "-m", "pip", *arguments]
        return self.runner.run(command, title=title, deadline=_DEADLINE)


def parse_report(report: bytes, requirement: str) -> WheelMetadata:
    """The metadata in pip's installation report of one requirement. Raises DataError."""
    try:
        (install,) = msgspec.json.decode(report, type=_Report).install
    except (msgspec.MsgspecError, ValueError) as error:
        raise DataError(f"pip's report of {requirement}: {error}") from error
    return WheelMetadata(
        requires=install.metadata.requires_dist,
        requires_python=install.metadata.requires_python,
        file=install.download_info.url.rpartition("/")[2],
    )


def pythons(interpreters: tuple[Interpreter, ...]) -> Iterator[str]:
    yield from dict.fromkeys(interpreter.python for interpreter in interpreters)
