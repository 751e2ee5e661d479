"""Chooses a stack: versions of all components that satisfy every row of the matrix.

The machine is part of the question: its CANN, driver, chips, Python and architecture are versions
of components like others, and are not changed.
"""

import contextlib
import functools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import resolvelib
from resolvelib.resolvers import Resolution

from ascend_doctor.errors import DoctorError
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.queries import (
    allowed_range,
    applies,
    candidates,
    is_version,
    meets,
    requirements,
)
from ascend_doctor.matrix.schema import Component, Need, Release, Stack
from ascend_doctor.matrix.versions import satisfies
from ascend_doctor.provision.demand import ABSENT, EXACT, Demand

_ROUNDS, _FEW_ROUNDS = 5000, 1000
_MAX_SCOPES = 64
# What no stack has (_OUTSIDE_STACKS) ranks between the last two: better than a stack known to
# be bad.
_RANK = {"verified": 0, "documented": 1, "derived": 2, "end-of-life": 3, "known-bad": 5}
_OUTSIDE_STACKS = 4
# A machine's facts cannot be chosen: if unknown, rows about them are silent.
_GIVEN = ("arch", "glibc", "soc")
_NEVER_BY_ITSELF = ("prerelease", "unlisted", "unmapped")
# Changed, one after another, in search of fewer doubts.
_VARIED = ("mindspeed", "cann", "torch-npu", "ms-swift", "twinkle", "verl")
# What frameworks' guides install for Megatron training, though not required elsewhere.
_WHOLE = {
    "ms-swift": ("mcore-bridge", "triton-ascend"),
    "twinkle": ("mcore-bridge",),
    "verl": ("mbridge", "triton-ascend"),
    "mindspeed-llm": ("triton-ascend",),
}
# A patch release's line: its first two numbers.
_LINES = {
    "cann": re.compile(r"==(\d+\.\d+)\.\d+(?=$|\s|,)"),
    "megatron-lm": re.compile(r"==core_[rv](\d+\.\d+)\."),
}


@dataclass(frozen=True, kw_only=True)
class SolveQuery:
    """``wishes``: ranges by component. ``machine``: fixed versions by component.

    ``bounds`` are ranges of components that need not be there. ``accepted`` are needs that bind
    nothing: who needs, and what. Without ``doubts`` a solution has only what some source allows;
    with them documented pairs bind nothing, and broken ones are among its doubts.
    """

    wishes: Mapping[str, str]
    machine: Mapping[str, str] = field(default_factory=dict)
    bounds: Mapping[str, str] = field(default_factory=dict)
    doubts: bool = False
    accepted: frozenset[tuple[str, str]] = frozenset()

    @property
    def when(self) -> dict[str, str]:
        """Machine facts of needs. Most Ascend servers are aarch64."""
        known = {"arch": self.machine.get("arch", "aarch64"), "family": self.machine.get("soc")}
        return {name: value for name, value in known.items() if value}


@dataclass(frozen=True)
class Choice:
    component: str
    version: str


@dataclass(frozen=True, kw_only=True)
class Doubt:
    """A need not met as documented; ``named``: another source allows the solution.

    ``version`` is "" of an open component, where others' needs exclude the documented range.
    """

    by: str
    version: str
    need: Need
    named: bool


@dataclass(frozen=True, kw_only=True)
class Solution:
    """``versions`` by component; ``ranges`` of open components are pip's choice.

    ``refs`` are git refs by component of which the matrix has no row.
    """

    versions: dict[str, str]
    ranges: dict[str, tuple[str, ...]]
    doubts: tuple[Doubt, ...]
    stacks: tuple[str, ...]
    refs: dict[str, str] = field(default_factory=dict)


def solve(catalog: Catalog, question: SolveQuery) -> Solution | None:
    """The stack with the fewest doubts, then verified, then newest; None without a stack."""
    pins = pin(catalog, question)
    if not isinstance(pins, dict):
        return None
    return solution(catalog, question, fewest_doubts(catalog, question, pins))


def fewest_doubts(catalog: Catalog, question: SolveQuery, pins: dict[str, str]) -> dict[str, str]:
    """The best of pins and of those that differ in one row of what doubts are about."""
    provider = _Provider(catalog, question)
    best = _solution(provider, pins)
    least = _doubtfulness(catalog, question, best)
    for name in _VARIED:
        if least == 0:
            break
        fixed = name in question.machine or question.wishes.get(name, "").startswith("==")
        if name not in best.versions or (fixed and "||" not in question.wishes.get(name, "")):
            continue
        for row in catalog.component(name).releases:
            if (
                name not in question.wishes
                or _never_by_itself(row)
                or not _is_allowed(catalog, name, row.version, question.wishes[name])
            ):
                continue
            others = _search(provider.with_wish(name, f"=={row.version}"))
            if isinstance(others, dict):
                other = _solution(provider, others)
                doubtfulness = _doubtfulness(catalog, question, other)
                if doubtfulness < least:
                    best, least, pins = other, doubtfulness, others
    return pins


def _is_allowed(catalog: Catalog, name: str, version: str, versions: str) -> bool:
    return satisfies(catalog.component(name).scheme, version, versions)


def _doubtfulness(catalog: Catalog, question: SolveQuery, solution: Solution) -> int:
    """1 for a patch release, 2 for a pair that another source names, 5 for an unnamed one.

    Of a requested framework release, the documents' first set counts more than their second: that
    is 4. A MindSpeed without a documented stack has fewer facts and so fewer doubts: it counts 3.
    """
    version = solution.versions.get("mindspeed")
    listed = version is None or any(
        _is_allowed(catalog, "mindspeed", version, stack.components["mindspeed"])
        for stack in catalog.stacks
        if "mindspeed" in stack.components
    )
    releases = {f"{name} {question.wishes.get(name, '').removeprefix('==')}" for name in _WHOLE}
    cost = sum(_weight(doubt, releases) for doubt in solution.doubts)
    return cost + (0 if listed or not cost else 3)


def _weight(doubt: Doubt, releases: Collection[str]) -> int:
    if _is_patch(doubt):
        return 1
    if not doubt.named:
        return 5
    return 4 if doubt.by in releases else 2


def _is_patch(doubt: Doubt) -> bool:
    pattern = _LINES.get(doubt.need.component)
    own = pattern.match(f"=={doubt.version}") if pattern else None
    return (
        pattern is not None and own is not None and own[1] in pattern.findall(doubt.need.versions)
    )


def pin(catalog: Catalog, question: SolveQuery) -> dict[str, str] | tuple[Demand, ...]:
    """Versions by component, or the demands at which the search ended.

    Commits without branch or tag, as some frameworks pin, are a last resort.
    """
    provider = _Provider(catalog, question)
    pins = _search(provider)
    if isinstance(pins, dict):
        return pins
    # A second chance, whose failure decides nothing.
    with contextlib.suppress(DoctorError):
        from_commits = _search(_Provider(catalog, question, commits=True), rounds=_FEW_ROUNDS)
        return from_commits if isinstance(from_commits, dict) else pins
    return pins


def has_stack(catalog: Catalog, question: SolveQuery) -> bool:
    """Whether ``pin`` gives versions."""
    return isinstance(pin(catalog, question), dict)


def _search(provider: "_Provider", rounds: int = _ROUNDS) -> dict[str, str] | tuple[Demand, ...]:
    """As ``_resolve``, asked once; the reasons of a refusal ask again."""
    known = provider.answers.results
    question = provider.question
    key = (tuple(question.wishes.items()), tuple(question.bounds.items()), rounds)
    if key not in known:
        known[key] = _resolve(provider, rounds)
    return known[key]


def _resolve(provider: "_Provider", rounds: int) -> dict[str, str] | tuple[Demand, ...]:
    search: Any = Resolution(provider, resolvelib.BaseReporter())
    demands = [*provider.wishes(), *provider.facts()]
    try:
        state = search.resolve(demands, max_rounds=rounds)
    except resolvelib.ResolutionImpossible as impossible:
        return tuple(cause.requirement for cause in impossible.causes)
    except resolvelib.ResolutionTooDeep as endless:
        raise DoctorError(f"no stack was found in {rounds} steps; narrow the wish") from endless
    return _pins_of_wish(
        provider, demands, {name: state_.version for name, state_ in state.mapping.items()}
    )


def _pins_of_wish(
    provider: "_Provider", demands: list[Demand], pins: Mapping[str, str]
) -> dict[str, str]:
    reached: dict[str, str] = {}
    todo = list(demands)
    while todo:
        demand = todo.pop()
        version = pins[demand.component]
        if demand.conditional or version == ABSENT or demand.component in reached:
            continue
        reached[demand.component] = version
        todo += provider.get_dependencies(Choice(demand.component, version))
    return {name: version for name, version in pins.items() if name in reached}


@dataclass(frozen=True)
class _Answers:
    """Answers of the matrix to searches that differ only in ``wishes``.

    ``roots`` are wishes and machine facts. The keys of ``matches`` and ``results`` have all
    that decides them.
    """

    dependencies: dict[tuple[str, str], tuple[Demand, ...]] = field(default_factory=dict)
    roots: dict[tuple[str, str, str], Demand] = field(default_factory=dict)
    matches: dict[tuple[Any, ...], list[Choice]] = field(default_factory=dict)
    shy: dict[str, frozenset[str]] = field(default_factory=dict)
    results: dict[tuple[Any, ...], dict[str, str] | tuple[Demand, ...]] = field(
        default_factory=dict
    )


@dataclass(frozen=True)
class _Scope:
    """All of a search but its wishes, which shares answers."""

    machine: tuple[tuple[str, str], ...]
    doubts: bool
    accepted: frozenset[tuple[str, str]]
    checkouts: frozenset[str]
    commits: bool


@functools.lru_cache(maxsize=_MAX_SCOPES)
def _answers(catalog: Catalog, scope: _Scope) -> _Answers:  # noqa: ARG001 - the cache's key
    return _Answers()


@functools.lru_cache(maxsize=_MAX_SCOPES)
def _checkouts(catalog: Catalog, names: frozenset[str]) -> frozenset[str]:
    return frozenset(
        part for name in names for row in catalog.component(name).releases for part in row.provides
    )


class _Provider(resolvelib.AbstractProvider[Any, Any, str]):
    def __init__(self, catalog: Catalog, question: SolveQuery, *, commits: bool = False) -> None:
        self.catalog = catalog
        self.question = question
        self._commits = commits
        self.stacks = tuple(
            sorted(_stacks_near(catalog, question), key=lambda stack: _RANK[stack.status])
        )
        self.checkouts = _checkouts(catalog, frozenset(question.wishes))
        self.answers = _answers(
            catalog,
            _Scope(
                tuple(question.machine.items()),
                question.doubts,
                question.accepted,
                self.checkouts,
                commits,
            ),
        )
        self._near = tuple(stack.id for stack in self.stacks)

    def with_wish(self, name: str, versions: str) -> "_Provider":
        wishes = {**self.question.wishes, name: versions}
        return _Provider(self.catalog, replace(self.question, wishes=wishes))

    @property
    def machine(self) -> Mapping[str, str]:
        return self.question.machine

    def wishes(self) -> Iterator[Demand]:
        for name, wish in self.question.wishes.items():
            yield self._root(name, wish, "you")
        for name, bound in self.question.bounds.items():
            yield self._root(name, bound, "the set", conditional=True)

    def facts(self) -> Iterator[Demand]:
        for name, version in self.question.machine.items():
            yield self._root(name, f"=={version}", "this machine")

    def _root(self, name: str, versions: str, by: str, *, conditional: bool = False) -> Demand:
        new = Demand(name, versions, by, conditional=conditional)
        return self.answers.roots.setdefault((name, versions, by), new)

    def identify(self, requirement_or_candidate: Demand | Choice) -> str:
        return requirement_or_candidate.component

    def get_preference(
        self,
        identifier: str,
        resolutions: Mapping[str, Choice],  # noqa: ARG002
        candidates: Mapping[str, Iterator[Choice]],
        information: Mapping[str, Iterator[Any]],  # noqa: ARG002
        backtrack_causes: Sequence[Any],
    ) -> tuple[bool, bool, int, str]:
        """The machine first, then the last dead end, then the least choice."""
        causes = {
            name
            for cause in backtrack_causes
            for name in (cause.requirement.component, cause.parent and cause.parent.component)
        }
        return (
            identifier not in self.question.machine,
            identifier not in causes,
            sum(1 for _ in candidates[identifier]),
            identifier,
        )

    def find_matches(
        self,
        identifier: str,
        requirements: Mapping[str, Iterator[Demand]],
        incompatibilities: Mapping[str, Iterator[Choice]],
    ) -> list[Choice]:
        demands = tuple(requirements[identifier])
        bad = frozenset(
            incompatibility.version for incompatibility in incompatibilities[identifier]
        )
        key = (identifier, demands, bad, self._near)
        known = self.answers.matches.get(key)
        if known is None:
            known = self.answers.matches[key] = self._find(identifier, demands, bad)
        return known

    def _find(
        self, identifier: str, demands: tuple[Demand, ...], bad: frozenset[str]
    ) -> list[Choice]:
        component = self.catalog.component(identifier)
        fitting = [
            version
            for version in self._versions(component, demands)
            if version not in bad and all(self.meets(demand, version) for demand in demands)
        ]
        if component.releases and identifier not in self.question.machine:
            fitting.sort(key=lambda version: self._order(component, version, demands))
        elif not component.releases:
            fitting.sort(key=lambda version: _strains(component, version, demands))
        return [Choice(identifier, version) for version in fitting]

    def is_satisfied_by(self, requirement: Demand, candidate: Choice) -> bool:
        return self.meets(requirement, candidate.version)

    def meets(self, demand: Demand, version: str) -> bool:
        """Whether a version, or its absence, meets the demand."""
        if version == ABSENT:
            return demand.conditional
        if not demand.binding:
            return True
        scheme = self.catalog.component(demand.component).scheme
        return satisfies(scheme, version, demand.versions) is not demand.negated

    def _versions(self, component: Component, demands: tuple[Demand, ...]) -> list[str]:
        if component.id in self.question.machine:
            return [self.question.machine[component.id]]
        every = candidates(component, [demand.versions for demand in demands])
        if component.releases:
            covered = _find_covered(component, [demand.versions for demand in demands], every)
            shy = self._shy(component)
            rows = (
                version
                for version in every
                if version not in shy
                or any(f"=={version}" in demand.versions for demand in demands)
            )
            every = (*covered, *rows)
        return [ABSENT, *every]

    def _shy(self, component: Component) -> frozenset[str]:
        """Versions only on request: pre-releases, branch heads and rows without facts."""
        known = self.answers.shy.get(component.id)
        if known is None:
            known = self.answers.shy[component.id] = frozenset(
                row.version
                for row in component.releases
                if row.version.startswith("0+")
                or (
                    _never_by_itself(row)
                    and not (self._commits and row.commit is not None and row.ref == row.commit)
                )
            )
        return known

    def _order(
        self, component: Component, version: str, demands: tuple[Demand, ...]
    ) -> tuple[int, int, bool, bool, int]:
        """Stacks by status, documented before allowed, maintained, newest first.

        A row silent about the machine's CANN counts no better than one that speaks.
        """
        if version == ABSENT:
            return -1, 0, False, False, 0
        matching = [
            _RANK[stack.status]
            for stack in self.stacks
            if component.id in stack.components
            and satisfies(component.scheme, version, stack.components[component.id])
        ]
        weak = sum(_strain(component, demand, version) for demand in demands) + sum(
            _strain(
                self.catalog.component(dependency.component),
                dependency,
                self.question.machine[dependency.component],
            )
            for dependency in self.demands_of(component.id, version)
            if dependency.component in self.question.machine
        )
        row = _row(component, version)
        mute = "cann" in self.question.machine and not any(
            dependency.component == "cann" for dependency in self.demands_of(component.id, version)
        )
        index = component.releases.index(row)
        rank = min(matching, default=_OUTSIDE_STACKS)
        return rank, weak, mute, row.status == "end-of-life", index

    def get_dependencies(self, candidate: Choice) -> list[Demand]:
        if candidate.version == ABSENT:
            return []
        return list(self.demands_of(candidate.component, candidate.version))

    def demands_of(self, name: str, version: str) -> tuple[Demand, ...]:
        """The demands of a version; a search asks hundreds of times."""
        known = self.answers.dependencies.get((name, version))
        if known is None:
            known = self.answers.dependencies[name, version] = tuple(self._demands(name, version))
        return known

    def _demands(self, name: str, version: str) -> Iterator[Demand]:
        row = self.catalog.component(name).release(version)
        if row is None:
            return
        by = f"{name} {version}"
        for part, provided in row.provides.items():
            yield Demand(part, f"=={provided}", by)
        for need in self._needs(name, version):
            yield Demand(
                need.component,
                _near(need, self.catalog),
                by,
                need,
                conditional=need.optional and need.component not in _WHOLE.get(name, ()),
                binding=self._binds(name, need),
            )
        for need in row.conflicts:
            if applies(need, self.question.when):
                yield Demand(
                    need.component,
                    need.versions,
                    by,
                    need,
                    conditional=True,
                    negated=True,
                    binding=self._binds(name, need),
                )

    def _binds(self, name: str, need: Need) -> bool:
        accepted = (name, need.component) in self.question.accepted
        return (need.hard or not self.question.doubts) and not accepted

    def _needs(self, name: str, version: str) -> Iterator[Need]:
        if name in self.checkouts:
            return  # the checkout that provides it has these needs, softly
        for need in requirements(self.catalog, name, version):
            known = need.component not in _GIVEN or need.component in self.question.machine
            if known and applies(need, self.question.when):
                yield need
        family = self.question.machine.get("soc")
        if name in {"mindspeed", *_WHOLE} and family and not self.catalog.family(family).training:
            trains = (f"=={each.id}" for each in self.catalog.families if each.training)
            because = "It is for training hardware."
            yield Need(component="soc", versions=" || ".join(trains), hard=False, because=because)


def _strains(component: Component, version: str, demands: tuple[Demand, ...]) -> int:
    """How badly a version of an open component meets all demands; absence comes first."""
    if version == ABSENT:
        return -1
    return sum(_strain(component, demand, version) for demand in demands)


def _strain(component: Component, demand: Demand, version: str) -> int:
    """0 if documented, 1 if another source allows it, 3 if unnamed."""
    if demand.need is None or demand.negated:
        return 0
    if satisfies(component.scheme, version, demand.need.versions):
        return 0
    if satisfies(component.scheme, version, allowed_range(demand.need)):
        return 1
    return 2 if satisfies(component.scheme, version, demand.versions) else 3


def _near(need: Need, catalog: Catalog) -> str:
    """The range that a source allows, and what no document mentions yet.

    These are patch releases of a documented CANN or Megatron-LM, and chips newer than most
    documents; a solution has a doubt about them.
    """
    ranges = allowed_range(need)
    pattern = _LINES.get(need.component)
    if need.component == "soc" and ranges and not need.hard:
        return " || ".join((ranges, *(f"=={new.id}" for new in catalog.families if new.is_new)))
    if pattern is None or need.hard or not ranges:
        return ranges
    lines = dict.fromkeys(pattern.findall(ranges))
    if need.component == "cann":
        return " || ".join((ranges, *(f"=={line}.X" for line in lines)))
    rows = (f"=={row.version}" for row in catalog.component(need.component).releases)
    near = [row for row in rows if (own := pattern.match(row)) and own[1] in lines]
    return " || ".join((ranges, *near))


def _find_covered(
    component: Component, ranges: Sequence[str], listed: Sequence[str]
) -> tuple[str, ...]:
    exact = {match for version_range in ranges for match in EXACT.findall(version_range)} - set(
        listed
    )
    return tuple(
        version
        for version in sorted(exact)
        if is_version(component.scheme, version) and component.release(version) is not None
    )


def _row(component: Component, version: str) -> Release:
    row = component.release(version)
    if row is None:
        raise DoctorError(f"no row of {component.id} speaks for {version}")
    return row


def _never_by_itself(row: Release) -> bool:
    """Pre-releases, rows without facts, and packages that no index has."""
    return row.status in _NEVER_BY_ITSELF or row.attributes.get("on_index") == "no"


def _stacks_near(catalog: Catalog, question: SolveQuery) -> Iterator[Stack]:
    for stack in catalog.stacks:
        shared = [name for name in question.wishes if name in stack.components]
        if all(_meet(catalog, name, question, stack) for name in shared):
            yield stack


def _meet(catalog: Catalog, name: str, question: SolveQuery, stack: Stack) -> bool:
    component = catalog.component(name)
    ranges = (question.wishes[name], stack.components[name])
    return meets(component, ranges)


def solution(catalog: Catalog, question: SolveQuery, pins: dict[str, str]) -> Solution:
    """What pins mean: pip's choice, the doubts, and the stacks."""
    return _solution(_Provider(catalog, question), pins)


def _solution(provider: _Provider, pins: dict[str, str]) -> Solution:
    catalog, question = provider.catalog, provider.question
    ranges: dict[str, list[str]] = {}
    doubts: list[Doubt] = []
    versions = dict(pins)
    demands = [
        *provider.wishes(),
        *(
            demand
            for name, version in pins.items()
            for demand in provider.get_dependencies(Choice(name, version))
        ),
    ]
    for demand in demands:
        pin = pins.get(demand.component)
        component = catalog.component(demand.component)
        if pin is None or demand.negated:
            continue
        if not component.releases and demand.component not in question.machine:
            versions.pop(demand.component, None)
            asked = ranges.setdefault(demand.component, [])
            if satisfies(component.scheme, pin, demand.versions):
                asked += [demand.versions] if demand.versions else []
            elif demand.need:
                doubts.append(Doubt(by=demand.by, version="", need=demand.need, named=False))
        elif demand.need and not satisfies(component.scheme, pin, demand.need.versions):
            named = satisfies(component.scheme, pin, allowed_range(demand.need))
            doubts.append(Doubt(by=demand.by, version=pin, need=demand.need, named=named))
    return Solution(
        versions=versions,
        ranges={name: tuple(dict.fromkeys(texts)) for name, texts in ranges.items()},
        doubts=tuple(doubts),
        stacks=tuple(
            stack.id
            for stack in provider.stacks
            if all(
                name not in pins or satisfies(catalog.component(name).scheme, pins[name], component)
                for name, component in stack.components.items()
            )
        ),
    )
