"""What a distribution's Requires-Dist asks for on the examined interpreter."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.markers import Marker, UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement

from ascend_doctor.errors import Unknown
from ascend_doctor.facts import Distribution, Python
from ascend_doctor.matrix.versions import normalised

_IMPLEMENTATIONS = {"cpython": "CPython", "pypy": "PyPy", "graalpy": "GraalVM"}


def requirements(python: Python, distribution: Distribution) -> Iterator[Requirement]:
    """The requirements whose markers hold on the examined interpreter; extras bind nobody.

    Raises Unknown where a marker asks for what the interpreter did not say.
    """
    for text in distribution.requires:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        if requirement.marker is None or _holds(requirement.marker, python):
            yield requirement


def range_declared(python: Python, distribution: Distribution, other: str) -> str | None:
    """The range that a distribution gives for another one, None where it does not ask for it."""
    for requirement in requirements(python, distribution):
        if normalised(requirement.name) == other:
            return str(requirement.specifier)
    return None


def _holds(marker: Marker, python: Python) -> bool:
    environment = _environment(python)
    for name, value in environment.items():
        if not value and name != "extra" and name in str(marker):
            raise Unknown(f"{python.executable or 'the interpreter'} did not say its {name}")
    try:
        return bool(marker.evaluate(environment))
    except (UndefinedComparison, UndefinedEnvironmentName, ValueError):
        return False


def _environment(python: Python) -> dict[str, str]:
    """Every variable of a marker; one left out would be answered for the doctor's own Python."""
    implementation = python.implementation
    return {
        "extra": "",
        "implementation_name": implementation,
        # Both are the release of the language in CPython, and nobody asks another one.
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
