"""A question's answer: the nearest set that somebody ran as a whole, else a mix of pairs."""

import itertools
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from ascend_doctor.errors import DoctorError
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.queries import is_version
from ascend_doctor.matrix.sets import PinnedSet
from ascend_doctor.matrix.versions import VersionError, satisfies
from ascend_doctor.provision.request_ranges import ALWAYS, StackRequest
from ascend_doctor.provision.solve import Doubt, Solution, SolveQuery

# On x86_64 torch_npu takes the builds for the CPU.
_BUILDS = ("torch", "torchvision")
_WHEELS = ("torch-npu", "torchvision")
_MEGATRON = ("megatron-lm", "mindspeed")
_NUMBER = re.compile(r"\d+")
Solver = Callable[[Catalog, SolveQuery], "Solution | None"]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """``differences`` of ``solution`` from ``chosen``, the set it is; none for a mix.

    ``forced``: some package of it refuses another, which somebody ran all the same.
    """

    solution: Solution
    chosen: PinnedSet | None = None
    differences: tuple[str, ...] = ()
    forced: bool = False


@dataclass(frozen=True)
class SetSearch:
    """A request; ``solver`` finds what pairs allow."""

    catalog: Catalog
    query: SolveQuery
    request: StackRequest
    solver: Solver

    def answer(self) -> Answer | None:
        """The nearest set completed, else what ``solver`` finds; None without either.

        Megatron-LM alone is answered by documented stacks: sets are of frameworks and additions.
        """
        name, wishes = self.request.framework_name, self.query.wishes
        exact, near = self.sets()
        if name and name not in self.catalog.component_ids:
            return next(map(self._as_it_stands, [*exact, *near]), None)
        if answer := self._first(exact):
            return answer
        solution = self.solver(self.catalog, self.query)
        mix = Answer(solution=solution, differences=self._clashes()) if solution else None
        if solution and not (near and name in {_asker(doubt) for doubt in solution.doubts}):
            return mix
        if answer := self._first(near) or self._first([*exact, *near], forced=True) or mix:
            return answer
        if name and not self.request.megatron and "megatron-lm" in wishes:
            fewer = {wish: wishes[wish] for wish in wishes if wish not in _MEGATRON}
            if alone := replace(self, query=replace(self.query, wishes=fewer)).answer():
                return replace(alone, differences=("without Megatron-LM", *alone.differences))
        return None

    def build(self) -> Answer | None:
        """The same for ``setup``: what pip and git can fetch."""
        exact, _ = self.sets()
        if answer := self._first(row for row in exact if self._is_buildable(row)):
            return answer
        solution = self.solver(self.catalog, self.query)
        return Answer(solution=solution) if solution else None

    def sets(self) -> tuple[list[PinnedSet], list[PinnedSet]]:
        """Sets that fit, the nearest first, and those of another patch release.

        Without a framework they are sets of a named addition, as of vllm-ascend.
        """
        wishes = self.query.wishes
        named = {name for name, wish in wishes.items() if wish or name not in ALWAYS}
        name, version = self.request.framework_name, self.request.framework_version
        frameworks = {name} if name else named
        rows = [row for row in self.catalog.sets if row.framework in frameworks]
        exact = [row for row in rows if version in {"", row.version} and self._fits(row)]
        line = _numbers(version)[:2]
        near = [row for row in rows if not exact and line == _numbers(row.version)[:2]]
        others = self.request.others(self.catalog)

        def rank(row: PinnedSet) -> tuple[object, ...]:
            pinned = len(others.keys() & row.others.keys()), len(named & row.pins.keys())
            own, asked = _numbers(row.version), _numbers(version)
            away = [-abs(a - b) for a, b in zip(own, asked, strict=False)] if version else own
            return *pinned, -len(self._differences(row)), bool(row.families), tuple(away)

        return sorted(exact, key=rank, reverse=True), sorted(
            filter(self._fits, near), key=rank, reverse=True
        )

    def _first(self, rows: Iterable[PinnedSet], *, forced: bool = False) -> Answer | None:
        return next(filter(None, (self._complete(row, forced=forced) for row in rows)), None)

    def _clashes(self) -> tuple[str, ...]:
        """What keeps its sets away, and additions that nothing knows."""
        name, version = self.request.framework_name, self.request.framework_version
        own = [row for row in self.catalog.sets if (row.framework, row.version) == (name, version)]
        unknown = (f"nothing is known of {other}" for other in self.request.others(self.catalog))
        return (*(f"{row.id}: {why}" for row in own if (why := self.misfit(row))), *unknown)

    def _fits(self, row: PinnedSet) -> bool:
        others = self.request.others(self.catalog).items()
        return (
            not self.misfit(row)
            and ("megatron-lm" in row.pins or not self.request.megatron)
            and all(version in {"", row.others.get(name, version)} for name, version in others)
        )

    def misfit(self, row: PinnedSet) -> str:
        """What keeps a set away; "" for nothing."""
        machine, name = self.query.machine, self.request.framework_name
        chips = row.families or tuple(each.id for each in self.catalog.families if each.training)
        if machine.get("soc", chips[0]) not in chips:
            titles = (re.split(r",| \(", self.catalog.family(chip).title)[0] for chip in chips)
            return f"it is for {' and '.join(titles)}"
        if row.arch and machine.get("arch", row.arch[0]) not in row.arch:
            return f"it is for {' and '.join(row.arch)}"
        lines = {_numbers(cann)[:2] for cann in (machine.get("cann"), row.pins.get("cann")) if cann}
        others = [
            part
            for part, wish in self.query.wishes.items()
            if wish and part != name and not self._has(row, part, wish)
        ]
        if len(lines) > 1 and "cann" not in others:
            others.append("cann")
        pins = " and ".join(f"{part} {row.pins[part]}" for part in others)
        return f"it has {pins}" if pins else ""

    def _has(self, row: PinnedSet, name: str, wish: str) -> bool:
        """Whether it is silent of a component or has it."""
        try:
            scheme = self.catalog.component(name).scheme
            return name not in row.pins or satisfies(scheme, row.pins[name], wish)
        except VersionError:
            return False

    def _differences(self, row: PinnedSet) -> tuple[str, ...]:
        machine = self.query.machine
        own = {name: machine[name] for name in ("cann", "python") if name in machine}
        own[self.request.framework_name] = self.request.framework_version
        pins = {**row.pins, row.framework: row.version}
        return tuple(
            f"{name} {version} instead of {pins[name]}"
            for name, version in own.items()
            if version and name in pins and version != pins[name]
        )

    def _as_it_stands(self, row: PinnedSet) -> Answer:
        """The set of a framework without rows."""
        refs = {name: pin for name, pin in row.pins.items() if self._is_git(name)}
        versions = {name: pin for name, pin in row.pins.items() if name not in refs}
        machine = self.query.machine
        versions |= {name: machine[name] for name in versions.keys() & machine.keys()}
        solution = Solution(versions=versions, ranges={}, doubts=(), stacks=(), refs=refs)
        return Answer(solution=solution, chosen=row, differences=self._differences(row))

    def _complete(self, row: PinnedSet, *, forced: bool) -> Answer | None:
        """The set's versions, and by pairs the rest."""
        machine, wishes = self.query.machine, self.query.wishes
        fixed = {*machine, *({row.framework} if wishes.get(row.framework) else ())}
        pins = {name: pin for name, pin in row.pins.items() if name not in fixed}
        known = {name: pin for name, pin in pins.items() if self._has_row(name, pin)}
        unknown = {name: pins[name] for name in pins.keys() - known.keys()}
        inside = {name for name, pin in row.pins.items() if machine.get(name, pin) == pin}
        try:
            solution = self.solver(
                self.catalog, self._bind(known, inside, unknown.keys(), forced=forced)
            )
        except DoctorError:
            return None
        if solution is None:
            return None
        gone = {*unknown, *({"megatron-core"} - pins.keys() if "megatron-lm" in unknown else ())}
        asked = {name: pin for name, pin in unknown.items() if name in wishes}
        refs = {name: pin for name, pin in asked.items() if self._is_git(name)}
        versions = {name: pin for name, pin in solution.versions.items() if name not in gone}
        versions |= {name: pin for name, pin in asked.items() if name not in refs}
        doubts = (
            doubt
            for doubt in solution.doubts
            if not {_asker(doubt), doubt.need.component} <= inside
        )
        return Answer(
            solution=replace(solution, versions=versions, doubts=tuple(doubts), refs=refs),
            chosen=row,
            differences=self._differences(row),
            forced=forced,
        )

    def _bind(
        self, known: Mapping[str, str], inside: set[str], unknown: Collection[str], *, forced: bool
    ) -> SolveQuery:
        """The question with the set's versions. Pairs inside of the set bind nothing: it ran.

        Builds bind, for a source names their release: torch 2.7.1 is 2.7.1+cpu on x86_64.
        """
        query, every = self.query, self.catalog.component_ids
        left_open = {
            name
            for name in every
            if name not in inside and name not in query.machine and not query.wishes.get(name)
        }
        accepted = {
            (who, what)
            for who, what in itertools.product(every, repeat=2)
            if ({who, what} <= inside and not (who in _WHEELS and what in _BUILDS))
            or not {who, what}.isdisjoint(unknown)
            or (forced and who in inside and what in left_open)
        }
        idle = {"mindspeed"} - inside if "megatron-lm" in inside else set()
        bounds = {
            name: f"=={pin} || =={pin}+cpu" if name in _BUILDS else f"=={pin}"
            for name, pin in known.items()
        }
        wishes = {
            name: bounds.pop(name, wish)
            for name, wish in query.wishes.items()
            if name not in unknown and (wish or name not in idle)
        }
        return replace(query, wishes=wishes, bounds=bounds, accepted=query.accepted | accepted)

    def _is_buildable(self, row: PinnedSet) -> bool:
        return row.framework in self.catalog.component_ids and all(
            self._is_git(name) or is_version(self.catalog.component(name).scheme, pin)
            for name, pin in row.pins.items()
        )

    def _is_git(self, name: str) -> bool:
        return self.catalog.component(name).obtain.kind == "git"

    def _has_row(self, name: str, version: str) -> bool:
        part = self.catalog.component(name)
        known = is_version(part.scheme, version)
        return known and (not part.releases or part.release(version) is not None)


def _asker(doubt: Doubt) -> str:
    return doubt.by.partition(" ")[0]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, _NUMBER.findall(version)))
