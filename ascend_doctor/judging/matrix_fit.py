"""Whether what is installed fits the rows of the matrix."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

from ascend_doctor.errors import NotApplicable, Unknown
from ascend_doctor.facts import Cann, CannInstall, Driver, Host, Npus, Python
from ascend_doctor.judging.judge import Case
from ascend_doctor.judging.packages import cann_version, distribution, family, find_distribution
from ascend_doctor.judging.requirements import range_declared
from ascend_doctor.judging.source_trees import core_version, megatron, mindspeed
from ascend_doctor.judging.version_compare import is_in_range, leading
from ascend_doctor.matrix.schema import Need, Release, is_meant, urls
from ascend_doctor.matrix.versions import VersionError, key

Fit = Literal["fits", "near", "doubt", "bad"]


class Relation(msgspec.Struct, frozen=True, kw_only=True):
    """A release's need of another component, and the present version.

    ``fit``: "fits" as documented; "near", another release of the documented line (8.5.1 for 8.5.0);
    "doubt", documented by none or only by a disputed or other source (``allowed``); "bad", refused.
    """

    need: Need
    have: str
    fit: Fit
    allowed: bool = False

    @property
    def refs(self) -> tuple[str, ...]:
        return urls(self.need.sources)

    @property
    def range_text(self) -> str:
        return spoken(self.need.versions)


def spoken(versions: str) -> str:
    """A range in words: "8.5.X, 9.0.X or >=9.1"."""
    parts = [word.strip().removeprefix("==") for word in versions.split("||")]
    return " or ".join((", ".join(parts[:-1]), parts[-1])) if len(parts) > 1 else parts[0] or "any"


def describe_range(row: Release, component: str) -> str:
    needs = (require for require in row.requires if require.component == component)
    return " or ".join(spoken(need.versions) for need in needs)


def release(case: Case, component: str, version: str) -> Release | None:
    """A version's row, or the sole one reporting it (verl 0.7.0.dev). Raises Unknown if invalid."""
    known = case.catalog.component(component)
    try:
        row = known.release(version)
    except VersionError as reason:
        raise Unknown(str(reason)) from reason
    reporting = [] if row else [other for other in known.releases if other.reports == version]
    return reporting[0] if len(reporting) == 1 else row


def line(case: Case, component: str, version: str) -> Release | None:
    """The row of a version, else the newest row of its line (the first two numbers)."""
    row = release(case, component, version)
    if row is not None:
        return row
    known = case.catalog.component(component)
    rows = [
        release
        for release in known.releases
        if leading(release.version, 2, known.scheme) == leading(version, 2, known.scheme)
    ]
    return max(rows, key=lambda release: key(known.scheme, release.version), default=None)


def present(case: Case, component: str) -> str:
    """The version of a component on this machine. Raises Unknown and NotApplicable."""
    if component in _FACTS:
        return _FACTS[component](case)
    obtain = case.catalog.component(component).obtain
    distribution = find_distribution(
        case, (obtain.distribution or component).lower().replace("_", "-")
    )
    if distribution is None:
        raise NotApplicable(f"{component} is not installed")
    return distribution.version


def _driver(case: Case) -> str:
    driver = case.need(Driver)
    if driver.version:
        return driver.version
    npus = case.need(Npus)
    if npus.driver_version:
        return npus.driver_version
    if not driver.present and not npus.devices:
        raise NotApplicable("there is no trace of an NPU on this machine")
    raise Unknown("the driver's version could not be told")


def _glibc(case: Case) -> str:
    glibc = case.need(Host).glibc
    if glibc is None:
        raise Unknown("the release of glibc could not be told")
    return glibc


# Components without a Python distribution.
_FACTS: dict[str, Callable[[Case], str]] = {
    "cann": cann_version,
    "driver": _driver,
    "driver-950": _driver,
    "glibc": _glibc,
    "megatron-core": core_version,
    "megatron-lm": lambda case: megatron(case).version,
    "mindspeed": lambda case: mindspeed(case).version,
    "python": lambda case: case.need(Python).version,
    "soc": lambda case: family(case).id,
}


def applies(case: Case, need: Need) -> bool:
    """Whether a row applies to this machine. Raises Unknown and NotApplicable."""
    return all(is_meant(_machine(case, name), required) for name, required in need.when.items())


def _machine(case: Case, name: str) -> str:
    if name == "arch":
        return case.need(Python).machine or case.need(Host).arch
    return family(case).id


def relation(case: Case, need: Need, have: str) -> Relation:
    """How a version on this machine meets a need. Raises Unknown for an invalid version."""
    scheme = case.catalog.component(need.component).scheme
    if is_in_range(have, need.versions, scheme):
        return Relation(need=need, have=have, fit="fits")
    allowed = bool(need.also) and is_in_range(have, need.also, scheme)
    # Release documents rarely name a patch release of CANN.
    if not need.hard and scheme == "ascend" and _same_line(have, need.versions):
        return Relation(need=need, have=have, fit="near", allowed=allowed)
    return Relation(
        need=need, have=have, fit="bad" if need.hard and not allowed else "doubt", allowed=allowed
    )


def _same_line(have: str, versions: str) -> bool:
    """Whether this is 8.5.1 and the documented release is 8.5.0."""
    exact = [word.strip()[2:] for word in versions.split("||") if word.strip().startswith("==")]
    lines = {leading(version.removesuffix(".X"), 2, "ascend") for version in exact}
    return leading(have, 2, "ascend") in lines


def relations(case: Case, row: Release, *components: str) -> Iterator[Relation]:
    """A row's relations to components here. Raises Unknown for an undetermined version."""
    for need, have in _there(case, row.requires, components):
        yield relation(case, need, have)


def conflicts(case: Case, row: Release, *components: str) -> Iterator[Relation]:
    """The present pairs that a row calls bad. Raises Unknown as ``relations``."""
    for need, have in _there(case, row.conflicts, components):
        if relation(case, need, have).fit == "fits":
            yield Relation(need=need, have=have, fit="bad")


def _there(
    case: Case, needs: tuple[Need, ...], components: tuple[str, ...]
) -> Iterator[tuple[Need, str]]:
    for need in needs:
        if need.component in components and applies(case, need):
            with contextlib.suppress(NotApplicable):
                yield need, present(case, need.component)


def find_cann(case: Case, row: Release) -> CannInstall | None:
    """The CANN on this machine that a release is published for, the one in use first."""
    cann = case.need(Cann)
    needs = [need for need in row.requires if need.component == "cann"]
    for install in sorted(cann.installs, key=lambda install: install.root != cann.active):
        with contextlib.suppress(Unknown):  # a version that is none
            if any(relation(case, need, install.version or "").fit == "fits" for need in needs):
                return install
    return None


def range_of(case: Case, name: str, other: str) -> str | None:
    """The range required of ``other``: by metadata, else row. Raises Unknown and NotApplicable."""
    requirer = distribution(case, name)
    required = range_declared(case.need(Python), requirer, other)
    if required is None:
        row = release(case, name, requirer.version)
        needs = [require for require in row.requires if require.component == other] if row else []
        required = next((need.versions for need in needs if applies(case, need)), None)
    return required


def releases_for(case: Case, name: str, other: str, version: str) -> list[str]:
    """Releases of a component that take this version of another, as listed: newest first."""
    return [
        row.version
        for row in case.catalog.component(name).releases
        for need in row.requires
        if need.component == other and is_in_range(version, need.versions)
    ]
