"""Rules versions out without a search: arc consistency over what a question fixes.

A version goes where one of its demands leaves nothing of another component. What is ruled out here
no search can choose, so searches that could only fail need not begin.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.queries import is_version
from ascend_doctor.provision.demand import ABSENT, EXACT, Demand


class Rules(Protocol):
    """Answers about one question."""

    @property
    def catalog(self) -> Catalog: ...

    @property
    def machine(self) -> Mapping[str, str]: ...

    def demands_of(self, name: str, version: str) -> tuple[Demand, ...]:
        """What a version asks of other components."""

    def meets(self, demand: Demand, version: str) -> bool:
        """Whether a version meets the demand."""


class Domains:
    """The versions that each component may have, by the demands of every solution.

    Open components, without rows, rule nothing out: any version may exist.
    """

    def __init__(
        self,
        rules: Rules,
        demands: Iterable[Demand],
        versions: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        self._rules = rules
        self._versions = dict(versions or {})
        for demand in demands:
            self._require(demand)
        self._settle()

    @property
    def empty(self) -> bool:
        """Whether a component has no version left."""
        return not all(self._versions.values())

    def with_demands(self, rules: Rules, demands: Iterable[Demand]) -> Domains:
        return Domains(rules, demands, self._versions)

    def allows(self, name: str, version: str) -> bool:
        return name not in self._versions or version in self._versions[name]

    def _options(self, name: str) -> tuple[str, ...] | None:
        """The versions left; None for an open component."""
        if name in self._versions:
            return self._versions[name]
        if name in self._rules.machine:
            return (self._rules.machine[name],)
        if not self._rules.catalog.component(name).releases:
            return None
        return (ABSENT, *_universe(self._rules.catalog, name))

    def _require(self, demand: Demand) -> bool:
        name = demand.component
        options = self._options(name)
        if options is None:
            return False
        if name not in self._versions and name not in self._rules.machine:
            exact = set(EXACT.findall(demand.versions)).difference(options)
            options = (*options, *_existing(self._rules.catalog, name, exact))
        left = tuple(version for version in options if self._rules.meets(demand, version))
        changed = left != self._versions.get(name)
        self._versions[name] = left
        return changed

    def _settle(self) -> None:
        fixed = set[str]()
        changed = True
        while changed and not self.empty:
            changed = False
            for name, options in list(self._versions.items()):
                left = tuple(filter(functools.partial(self._possible, name), options))
                changed |= left != options
                self._versions[name] = left
                if len(left) == 1 and name not in fixed:
                    fixed.add(name)
                    for demand in self._demands(name, left[0]):
                        changed |= self._require(demand)

    def _demands(self, name: str, version: str) -> tuple[Demand, ...]:
        return () if version == ABSENT else self._rules.demands_of(name, version)

    def _possible(self, name: str, version: str) -> bool:
        return all(
            (options := self._options(demand.component)) is None
            or any(self._rules.meets(demand, option) for option in options)
            for demand in self._demands(name, version)
        )


@functools.lru_cache(maxsize=256)
def _universe(catalog: Catalog, name: str) -> tuple[str, ...]:
    component = catalog.component(name)
    listed = tuple(row.version for row in component.releases)
    exact = _exact_versions(catalog)[name].difference(listed)
    return (*listed, *_existing(catalog, name, exact))


def _existing(catalog: Catalog, name: str, versions: Iterable[str]) -> Iterator[str]:
    """Versions that a row covers; "25.3.X" is a line, not a version."""
    component = catalog.component(name)
    return (
        version
        for version in sorted(versions)
        if is_version(component.scheme, version) and component.release(version) is not None
    )


@functools.lru_cache(maxsize=4)
def _exact_versions(catalog: Catalog) -> Mapping[str, set[str]]:
    exact = defaultdict[str, set[str]](set)
    for component in catalog.components:
        for row in component.releases:
            for part, provided in row.provides.items():
                exact[part].add(provided)
            for need in (*row.requires, *row.conflicts):
                exact[need.component].update(EXACT.findall(need.versions))
                exact[need.component].update(EXACT.findall(need.also))
    return exact
