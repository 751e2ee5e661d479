"""Asks repositories and indexes what is new of a component."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ascend_doctor.errors import DataError
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.schema import Component
from ascend_doctor.provision.git import Git
from ascend_doctor.provision.running import CommandError
from ascend_doctor.provision.sources import Mirrors
from ascend_doctor.upkeep.metadata_check import contradictions, read_bounds
from ascend_doctor.upkeep.package_index import Interpreter, PackageIndex
from ascend_doctor.upkeep.proposals import (
    MovedHead,
    NewRow,
    find_lost_refs,
    find_moved_heads,
    propose_releases,
    propose_rows,
    read_core,
    read_refs,
)


@dataclass(frozen=True, kw_only=True)
class ComponentNews:
    """What is new of a component. ``remarks`` are for people; ``failures`` did not answer."""

    rows: tuple[NewRow, ...]
    heads: tuple[MovedHead, ...]
    remarks: tuple[str, ...]
    failures: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Survey:
    """``index`` is None to ask only repositories, ``as_of`` "" if all counts.

    ``compare``: also compare every row with its wheel.
    """

    catalog: Catalog
    git: Git
    mirrors: Mirrors
    index: PackageIndex | None
    as_of: str = ""
    compare: bool = False

    def examine(self, component: Component) -> ComponentNews:
        rows: dict[str, NewRow] = {}
        heads: tuple[MovedHead, ...] = ()
        remarks: list[str] = []
        failures: list[str] = []
        try:
            if component.upstream and component.releases:
                source = self.mirrors.source(component.id, component.upstream.repository)
                refs = read_refs(source, self.git, dated=bool(self.as_of))
                for row in propose_rows(component, refs, self.as_of):
                    core = read_core(component.upstream, source, self.git, row.commit)
                    rows[row.version] = replace(row, core=core)
                heads = tuple(find_moved_heads(component, refs, self.as_of))
                remarks += (
                    f"{component.id}=={lost.version}: its repository has no ref {lost.ref}"
                    for lost in find_lost_refs(component, refs)
                )
        except (CommandError, DataError) as error:
            failures.append(str(error))
        try:
            for row in self._releases(component, remarks):
                known = rows.get(row.version, row)
                rows[row.version] = replace(known, requires=row.requires)
        except (CommandError, DataError) as error:
            failures.append(str(error))
        return ComponentNews(
            rows=tuple(rows.values()), heads=heads, remarks=tuple(remarks), failures=tuple(failures)
        )

    def _releases(self, component: Component, remarks: list[str]) -> Iterator[NewRow]:
        if self.index is None or component.obtain.kind != "pip" or not component.releases:
            return
        distribution = component.obtain.distribution
        wheels = self.index.all_versions(distribution)
        for row in propose_releases(component, wheels):
            interpreter = wheels[row.version][0]
            metadata = self.index.metadata(distribution, row.version, interpreter)
            bounds = read_bounds(self.catalog, component, metadata, interpreter)
            requires = tuple(sorted((name, text) for name, text in bounds.items() if text))
            yield replace(row, requires=requires)
        if self.compare:
            remarks += self._contradictions(self.index, component, wheels)

    def _contradictions(
        self, index: PackageIndex, component: Component, wheels: dict[str, tuple[Interpreter, ...]]
    ) -> Iterator[str]:
        for release in component.releases:
            interpreters = wheels.get(release.version)
            if interpreters:
                metadata = index.metadata(
                    component.obtain.distribution, release.version, interpreters[0]
                )
                yield from map(
                    str, contradictions(self.catalog, component, release, metadata, interpreters)
                )
