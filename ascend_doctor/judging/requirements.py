"""What a distribution's Requires-Dist asks for on the examined interpreter."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ascend_doctor.errors import Unknown
from ascend_doctor.facts import Distribution, Python
from ascend_doctor.matrix.versions import VersionError, check_range, normalised

if TYPE_CHECKING:
    from packaging.markers import Marker

# Most requirements are a name and a range: no need for a marker parser, which imports slowly.
_PLAIN = re.compile(
    r"\s*([A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?)\s*((?:[<>=!~][^;@()\[\]]*)?)", re.ASCII
)
_IMPLEMENTATIONS = {"cpython": "CPython", "pypy": "PyPy", "graalpy": "GraalVM"}


class Requirement(NamedTuple):
    name: str
    specifier: str


def requirements(python: Python, distribution: Distribution) -> Iterator[Requirement]:
    """Requirements without extras whose markers hold. Raises Unknown if a value is missing."""
    for text in distribution.requires:
        requirement = _plain(text) or _conditional(text, python)
        if requirement is not None:
            yield requirement


def _plain(text: str) -> Requirement | None:
    match = _PLAIN.fullmatch(text)
    if match is None:
        return None
    bounds = sorted({"".join(bound.split()) for bound in match[2].split(",")} - {""})
    try:
        check_range("pep440", ",".join(bounds))
    except VersionError:
        return None
    return Requirement(match[1], ",".join(bounds))


def _conditional(text: str, python: Python) -> Requirement | None:
    """A requirement in any form of PEP 508; None if invalid or its marker does not hold."""
    from packaging import requirements as pep508

    try:
        requirement = pep508.Requirement(text)
    except pep508.InvalidRequirement:
        return None
    if requirement.marker is not None and not _holds(requirement.marker, python):
        return None
    return Requirement(requirement.name, str(requirement.specifier))


def range_declared(python: Python, distribution: Distribution, other: str) -> str | None:
    """The range that a distribution declares for another one."""
    for requirement in requirements(python, distribution):
        if normalised(requirement.name) == other:
            return str(requirement.specifier)
    return None


def _holds(marker: Marker, python: Python) -> bool:
    from packaging.markers import UndefinedComparison, UndefinedEnvironmentName

    environment = _environment(python)
    for name, value in environment.items():
        if not value and name != "extra" and name in str(marker):
            raise Unknown(f"{python.executable or 'the interpreter'} did not say its {name}")
    try:
        return bool(marker.evaluate(environment))
    except (UndefinedComparison, UndefinedEnvironmentName, ValueError):
        return False


def _environment(python: Python) -> dict[str, str]:
    """Every marker variable: for a missing one, the doctor's own Python would answer."""
    implementation = python.implementation
    return {
        "extra": "",
        "implementation_name": implementation,
        # In CPython both are the language's release; no marker uses another.
        "implementation_version": python.version,
        "os_name": "posix",
        "platform_machine": python.machine,
        "platform_python_implementation": _IMPLEMENTATIONS.get(implementation, implementation),
        "platform_release": "",
        "platform_system": "Linux",  # Ascend's driver exists for no other
        "platform_version": "",
        "python_full_version": python.version,
        "python_version": ".".join(python.version.split(".")[:2]),
        "sys_platform": "linux",
    }
