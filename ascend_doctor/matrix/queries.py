"""Questions to the matrix: what a version needs, whether a pair fits, which rows bind two parts."""

import difflib
import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

import msgspec

from ascend_doctor.errors import DataError
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.schema import Component, Need, Release, Source, Stack, is_meant
from ascend_doctor.matrix.versions import Scheme, VersionError, key, normalised, parse, satisfies

Fit = Literal["fits", "also", "outside"]
# What a machine is, not what a stack installs on it.
MACHINE_FACTS = ("cann", "driver", "python", "arch", "soc", "glibc")


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """A component, or one version of it, that a user named."""

    component: Component
    version: str | None = None

    @property
    def releases(self) -> tuple[Release, ...]:
        """The rows meant: all, or the one for the version, or with it as ref.

        Otherwise those that report the version as their own: branches share a number.
        """
        if self.version is None:
            return self.component.releases
        by_ref = tuple(row for row in self.component.releases if row.ref == self.version)
        if by_ref:
            return by_ref
        row = self.component.release(self.version)
        reporting = (
            release for release in self.component.releases if release.reports == self.version
        )
        return (row,) if row else tuple(reporting)


class Bond(msgspec.Struct, frozen=True, kw_only=True):
    """A row that binds two parts. ``need`` is None for a stack, a set or a provided version."""

    kind: Literal["requires", "conflicts", "provides", "shared", "stack", "set"]
    row: str
    text: str
    sources: tuple[Source, ...]
    need: Need | None = None
    fit: Fit | None = None


def choose(catalog: Catalog, text: str) -> Chosen:
    """The component that ``NAME``, ``NAME==VERSION`` or ``NAME@VERSION`` means.

    A name is an id or a distribution of the matrix. Raises DataError for another name, or a
    version that its scheme lacks.
    """
    name, *versions = map(str.strip, re.split("==?|@", text, maxsplit=1))
    if versions == [""]:
        raise DataError(f"{text}: the version is missing")
    chosen = Chosen(component=_component(catalog, name), version="".join(versions) or None)
    component = chosen.component
    wrong = next((ref for ref in component.refs if ref.ref == chosen.version), None)
    if wrong and not wrong.exists:
        use = f"; use {wrong.use}" if wrong.use else ""
        raise DataError(f"{component.title} has no ref {wrong.ref}{use}. {wrong.note}".strip())
    try:
        chosen.releases  # noqa: B018 - parses the version
    except VersionError as error:
        raise DataError(f"{component.id}: {error}") from error
    return chosen


def _component(catalog: Catalog, name: str) -> Component:
    if known := component_of(catalog, name):
        return catalog.component(known)
    normal_name = normalised(name)
    sets = (row.id for row in catalog.sets)
    names = (*catalog.component_ids, *catalog.files("stacks"), *sets)
    near = difflib.get_close_matches(normal_name, names, n=3)
    hint = f"did you mean {', '.join(near)}?" if near else "`ascend-doctor matrix list` has them"
    raise DataError(f"no component is called {name!r}; {hint}")


def component_of(catalog: Catalog, name: str) -> str | None:
    """The id of the component with this id or distribution."""
    normal = "megatron-lm" if name == "megatron" else normalised(name.strip())
    if normal in catalog.component_ids:
        return normal
    names = {normalised(part.obtain.distribution): part.id for part in catalog.components}
    return names.get(normal) if normal else None


def requirements(catalog: Catalog, component: str, version: str) -> tuple[Need, ...]:
    """What a version needs, and softly what the versions that it provides need.

    Nothing enforces the package metadata of what a checkout provides. Empty for a version
    without a row. Raises DataError and VersionError.
    """
    row = catalog.component(component).release(version)
    if row is None:
        return ()
    needs = list(row.requires)
    for name, provided in row.provides.items():
        inner = catalog.component(name).release(provided)
        own = {need.component for need in row.requires}
        needs += [
            msgspec.structs.replace(need, hard=False)
            for need in (inner.requires if inner else ())
            if need.component not in own
        ]
    return tuple(needs)


def applies(need: Need, machine: Mapping[str, str]) -> bool | None:
    """Whether a need applies to a machine (arch, family); None if unknown."""
    answers: list[bool | None] = []
    for name, required in need.when.items():
        value = machine.get(name)
        if value is None:
            answers.append(None)
        else:
            answers.append(is_meant(value, required))
    if False in answers:
        return False
    return None if None in answers else True


def fit(catalog: Catalog, need: Need, version: str) -> Fit:
    """How a version of ``need.component`` fits a need. Raises DataError and VersionError."""
    scheme = catalog.component(need.component).scheme
    if satisfies(scheme, version, need.versions):
        return "fits"
    return "also" if need.also and satisfies(scheme, version, need.also) else "outside"


def why(catalog: Catalog, chosen: Chosen, other: Chosen) -> tuple[Bond, ...]:
    """The rows that bind two parts: in both directions, through a third part, and in stacks.

    A third part (both need NumPy) counts if both parts have a version.
    """
    return (
        *_bonds(catalog, chosen, other),
        *_bonds(catalog, other, chosen),
        *_shared(catalog, chosen, other),
        *_stack_bonds(catalog, chosen, other),
        *_set_bonds(catalog, chosen, other),
    )


def _bonds(catalog: Catalog, chosen: Chosen, other: Chosen) -> Iterator[Bond]:
    targets = {other.component.id: {other.version} if other.version else set()}
    for row in other.releases:
        for name, version in row.provides.items():
            targets.setdefault(name, set()).update({version} if other.version else ())
    for row in chosen.releases:
        label = f"{chosen.component.id} {row.version}"
        if other.component.id in row.provides:
            provided = row.provides[other.component.id]
            text = f"provides {other.component.id} {provided}"
            yield Bond(kind="provides", row=label, text=text, sources=row.sources)
        for need in row.requires:
            if need.component in targets:
                yield _bond(catalog, "requires", label, row, need, targets[need.component])
        for need in row.conflicts:
            if need.component in targets:
                bond = _bond(catalog, "conflicts", label, row, need, targets[need.component])
                # A conflict with another version binds nothing.
                if bond.fit != "outside":
                    yield bond


def _bond(
    catalog: Catalog,
    kind: Literal["requires", "conflicts"],
    label: str,
    row: Release,
    need: Need,
    versions: set[str],
) -> Bond:
    verb = ("requires" if need.hard else "is documented with") if kind == "requires" else "excludes"
    text = f"{verb} {need.component} {need.versions or 'of any version'}"
    fits = [fit(catalog, need, version) for version in sorted(versions)]
    return Bond(
        kind=kind,
        row=label,
        text=f"{text}. {need.because}".strip(),
        sources=need.sources or row.sources,
        need=need,
        fit=fits[0] if fits else None,
    )


def _shared(catalog: Catalog, chosen: Chosen, other: Chosen) -> Iterator[Bond]:
    if chosen.version is None or other.version is None:
        return
    label = f"{chosen.component.id} {chosen.version}, {other.component.id} {other.version}"
    for mine in requirements(catalog, chosen.component.id, chosen.version):
        for theirs in requirements(catalog, other.component.id, other.version):
            if mine.component == theirs.component:
                third = catalog.component(mine.component)
                met = meets(third, (allowed_range(mine), allowed_range(theirs)))
                verdict = "" if met else ": no version is both"
                yield Bond(
                    kind="shared",
                    row=label,
                    text=f"{third.id} {mine.versions or 'any'} and "
                    f"{theirs.versions or 'any'}{verdict}",
                    sources=(*mine.sources, *theirs.sources),
                    need=msgspec.structs.replace(mine, hard=mine.hard and theirs.hard),
                    fit="fits" if met else "outside",
                )


def meets(component: Component, ranges: tuple[str, ...]) -> bool:
    """Whether one version (a row's; any if open) satisfies all ranges."""
    return any(
        all(satisfies(component.scheme, version, version_range) for version_range in ranges)
        for version in candidates(component, ranges)
    )


def candidates(component: Component, ranges: Iterable[str]) -> tuple[str, ...]:
    """The rows' versions. Of an open component: some among which a meeting one would be.

    Ranges meet, if at all, at the end of one of them or just above.
    """
    if component.releases:
        return tuple(row.version for row in component.releases)
    ends = {end for text in ranges for end in re.findall(r"[=<>~]\s*([0-9][^\s,|*]*)", text)}
    near = {text for end in ends for text in (end.rstrip("."), f"{end.rstrip('.')}.0.1")}
    return ("0", *sorted(version for version in near if is_version(component.scheme, version)))


def near_rows(component: Component, version: str) -> str:
    """The rows' versions beside one without a row."""
    known = [row.version for row in component.releases]
    if component.scheme == "ref" or not is_version(component.scheme, version):
        return ", ".join(difflib.get_close_matches(version, known, n=3, cutoff=0))
    known = sorted({version, *known}, key=functools.partial(key, component.scheme))
    index = known.index(version)
    return " and ".join((*known[max(index - 1, 0) : index], *known[index + 1 : index + 2]))


def is_version(scheme: Scheme, text: str) -> bool:
    try:
        parse(scheme, text)
    except VersionError:
        return False
    return True


def allowed_range(need: Need) -> str:
    """The range that any source allows."""
    return f"{need.versions} || {need.also}" if need.versions and need.also else need.versions


def _stack_bonds(catalog: Catalog, chosen: Chosen, other: Chosen) -> Iterator[Bond]:
    for stack in catalog.stacks:
        if _in_stack(stack, chosen) and _in_stack(stack, other):
            pair = ", ".join(
                f"{part.component.id} {stack.components[part.component.id]}"
                for part in (chosen, other)
            )
            text = f"{stack.status}: {pair}"
            yield Bond(kind="stack", row=stack.id, text=text, sources=stack.sources)


def _set_bonds(catalog: Catalog, chosen: Chosen, other: Chosen) -> Iterator[Bond]:
    for row in catalog.sets:
        own = {row.framework: row.version, **row.pins}
        pins = [own.get(part.component.id) for part in (chosen, other)]
        wished = (chosen.version, other.version)
        if all(pin and wish in {None, pin} for pin, wish in zip(pins, wished, strict=True)):
            text = f"{row.title}: {chosen.component.id} {pins[0]}, {other.component.id} {pins[1]}"
            yield Bond(kind="set", row=row.id, text=text, sources=row.sources)


def _in_stack(stack: Stack, part: Chosen) -> bool:
    version = stack.components.get(part.component.id)
    if version is None:
        return False
    return part.version is None or satisfies(part.component.scheme, part.version, version)
