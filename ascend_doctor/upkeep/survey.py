"""Asks repositories and indexes what is new of a component."""

from collections.abc import Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from ascend_doctor.errors import DataError
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.schema import Component
from ascend_doctor.provision.git import Git
from ascend_doctor.provision.running import CommandError
from ascend_doctor.provision.sources import Mirrors
from ascend_doctor.upkeep.package_index import PackageIndex, read_bounds
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
    """``index`` is None to ask only repositories."""

    catalog: Catalog
    git: Git
    mirrors: Mirrors
    index: PackageIndex | None

    def examine(self, component: Component) -> ComponentNews:
        rows: dict[str, NewRow] = {}
        heads: tuple[MovedHead, ...] = ()
        remarks: list[str] = []
        failures: list[str] = []
        try:
            if component.upstream and component.releases:
                source = self.mirrors.source(component.id, component.upstream.repository)
                refs = read_refs(source, self.git)
                for row in propose_rows(component, refs):
                    core = read_core(component.upstream, source, self.git, row.commit)
                    rows[row.version] = replace(row, core=core)
                heads = tuple(find_moved_heads(component, refs))
                remarks += find_lost_refs(component, refs)
        except (CommandError, DataError) as error:
            failures.append(str(error))
        try:
            for row in self._releases(component):
                known = rows.get(row.version, row)
                rows[row.version] = replace(known, requires=row.requires)
        except (CommandError, DataError) as error:
            failures.append(str(error))
        return ComponentNews(
            rows=tuple(rows.values()), heads=heads, remarks=tuple(remarks), failures=tuple(failures)
        )

    def _releases(self, component: Component) -> Iterator[NewRow]:
        if self.index is None or component.obtain.kind != "pip" or not component.releases:
            return
        distribution = component.obtain.distribution
        wheels = self.index.all_versions(distribution)
        for row in propose_releases(component, wheels):
            interpreter = wheels[row.version][0]
            lines = self.index.requirements(distribution, row.version, interpreter)
            bounds = read_bounds(self.catalog, component, lines, interpreter)
            requires = tuple(sorted((name, text) for name, text in bounds.items() if text))
            yield replace(row, requires=requires)
