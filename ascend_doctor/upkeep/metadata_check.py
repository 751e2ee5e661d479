"""Compares rows of the matrix with what the wheels that they speak of say of themselves."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from packaging.requirements import InvalidRequirement, Requirement

from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.queries import applies, candidates
from ascend_doctor.matrix.schema import Component, Need, Release
from ascend_doctor.matrix.versions import normalised, satisfies
from ascend_doctor.upkeep.package_index import PYTHONS, Interpreter, WheelMetadata, pythons


@dataclass(frozen=True, kw_only=True)
class Contradiction:
    """What a row says otherwise than the wheel ``file``, or not at all."""

    row: str
    what: str
    file: str

    def __str__(self) -> str:
        return f"{self.row}: {self.what} ({self.file})"


def contradictions(
    catalog: Catalog,
    component: Component,
    release: Release,
    metadata: WheelMetadata,
    interpreters: tuple[Interpreter, ...],
) -> Iterator[Contradiction]:
    """Contradictions between a release's row and its wheel.

    ``interpreters`` are all with a wheel of the release; the first is that of ``metadata``.
    """
    row = f"{component.id} {release.version}"
    words = [*_python(catalog, release, metadata, interpreters)]
    for part, specifier in read_bounds(catalog, component, metadata, interpreters[0]).items():
        words += _compare_bound(catalog.component(part), release, specifier, interpreters[0])
    yield from (Contradiction(row=row, what=what, file=metadata.file) for what in words)


def _python(
    catalog: Catalog,
    release: Release,
    metadata: WheelMetadata,
    interpreters: tuple[Interpreter, ...],
) -> Iterator[str]:
    """Rows name the Pythons that have a wheel, or those that a source can be built for."""
    wheels = set(pythons(interpreters))
    known = {row.version for row in catalog.component("python").releases} & set(PYTHONS)
    stated = {python for python in known if satisfies("pep440", python, metadata.requires_python)}
    for need in release.requires:
        if need.component == "python" and need.hard:
            allowed = {python for python in known if satisfies("pep440", python, need.versions)}
            if allowed not in (wheels & known, stated):
                yield (
                    f"needs python {need.versions}; its wheels are for "
                    f"{', '.join(sorted(wheels, key=_minor))}"
                )


def _minor(python: str) -> int:
    return int(python.partition(".")[2])


def read_bounds(
    catalog: Catalog, component: Component, metadata: WheelMetadata, interpreter: Interpreter
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
    for line in metadata.requires:
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


def _compare_bound(
    target: Component, release: Release, specifier: str, interpreter: Interpreter
) -> Iterator[str]:
    needs = [
        need
        for need in release.requires
        if need.component == target.id and applies(need, {"arch": interpreter.arch}) is not False
    ]
    shown = f"{target.id} {specifier}".strip()
    if not needs:
        if specifier:
            yield f"lacks {shown}"
        return
    hard = [need for need in needs if need.hard]
    # A document may narrow what metadata allows; what it allows beyond must be refused somewhere.
    excess = [*_beyond(target, hard or needs, specifier)]
    if excess:
        ranges = " and ".join(need.versions for need in hard or needs)
        yield f"needs {target.id} {ranges}, its wheel {shown}: {', '.join(excess[:4])}"


def _beyond(target: Component, needs: list[Need], specifier: str) -> Iterator[str]:
    ranges = [need.versions for need in needs]
    hard = all(need.hard for need in needs)
    for version in candidates(target, [*ranges, specifier]):
        inside = all(satisfies(target.scheme, version, text) for text in ranges)
        asked = satisfies(target.scheme, version, specifier)
        if inside and not asked:
            yield f"{version} is let in"
        elif asked and not inside and hard:
            yield f"{version} is shut out"
