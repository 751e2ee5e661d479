"""Comparisons of versions for checks: a text that is no version is "could not tell"."""

from ascend_doctor.errors import Unknown
from ascend_doctor.judging.judge import Case
from ascend_doctor.matrix.schema import Behaviour
from ascend_doctor.matrix.versions import Scheme, VersionError, numbers, satisfies


def is_in_range(version: str, version_range: str, scheme: Scheme = "pep440") -> bool:
    """Whether a version lies in a range. Raises Unknown for an invalid version."""
    try:
        return satisfies(scheme, version, version_range)
    except VersionError as reason:
        raise Unknown(str(reason)) from reason


def leading(version: str, count: int, scheme: Scheme = "pep440") -> tuple[int, ...]:
    """The first numbers of a version. Raises Unknown for an invalid version."""
    try:
        return numbers(scheme, version, count)
    except VersionError as reason:
        raise Unknown(str(reason)) from reason


def behaviour(case: Case, component: str, identity: str, version: str) -> Behaviour | None:
    """A version's behaviour by the matrix. Raises Unknown for an invalid version."""
    try:
        return case.catalog.component(component).behaviour(identity, version)
    except VersionError as reason:
        raise Unknown(str(reason)) from reason
