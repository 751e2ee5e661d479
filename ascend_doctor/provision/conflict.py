"""Why no stack fits: a smallest set of wishes and machine facts, and what to change."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from ascend_doctor.errors import DoctorError
from ascend_doctor.findings import first_of
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.queries import allowed_range, meets, near_rows
from ascend_doctor.matrix.versions import satisfies
from ascend_doctor.provision.demand import EXACT, Demand
from ascend_doctor.provision.solve import (
    Doubt,
    Solution,
    SolveQuery,
    fewest_doubts,
    has_stack,
    pin,
    solution,
    solve,
)

_MANY = 3
_TOLD = ("megatron-lm", "mindspeed", "cann", "torch-npu", "python")


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """``wishes`` and ``machine`` exclude each other; without any one of them they would not.

    ``reasons`` are the rows at which the search ended, ``changes`` would give a stack.
    """

    wishes: tuple[str, ...]
    machine: tuple[str, ...]
    reasons: tuple[str, ...]
    changes: tuple[str, ...]


class NoStackError(DoctorError):
    """``refusal`` says why no stack fits."""

    def __init__(self, refused: Refusal, query: SolveQuery) -> None:
        super().__init__("no stack fits")
        self.refusal, self.query = refused, query


def refusal(catalog: Catalog, question: SolveQuery) -> Refusal:
    """Why ``solve`` found nothing. The set is smallest: it needs each of its parts.

    Conflicts of metadata and code come before pairs that documents lack. If the rest of the
    question has no stack either, its reasons follow.
    """
    strict = replace(question, doubts=True)
    asked = question if has_stack(catalog, strict) else strict
    core = _shrink(catalog, asked)
    rests = (_without_wish(asked, name) for name in core.wishes)
    others = (_shrink(catalog, rest) for rest in rests if not has_stack(catalog, rest))
    reasons = (reason for each in (core, *others) for reason in _reasons(catalog, each, question))
    smallest = (
        core if asked is question else _shrink(catalog, replace(core, doubts=question.doubts))
    )
    return Refusal(
        wishes=tuple(smallest.wishes),
        machine=tuple(smallest.machine),
        reasons=tuple(dict.fromkeys(reasons)),
        changes=tuple(dict.fromkeys(_changes(catalog, question, smallest))),
    )


def _shrink(catalog: Catalog, question: SolveQuery) -> SolveQuery:
    smallest, before = question, None
    # A requested checkout lifts needs of what it brings: dropping one part can make another
    # dispensable.
    while smallest != before:
        before = smallest
        for fewer, name in _parts(before):
            tried = fewer(smallest, name)
            if not has_stack(catalog, tried):
                smallest = tried
    return smallest


def _reasons(catalog: Catalog, smallest: SolveQuery, question: SolveQuery) -> Iterator[str]:
    doubtful = replace(smallest, doubts=True)
    demands = pin(catalog, doubtful)
    if not isinstance(demands, dict):
        yield from _ends(catalog, _colliding(catalog, smallest, demands) or demands)
        return
    nearest = solution(catalog, doubtful, fewest_doubts(catalog, doubtful, demands))
    doubts = [each for each in nearest.doubts if not each.named]
    asked = {*smallest.wishes, *smallest.machine}
    direct = [each for each in doubts if {each.by.partition(" ")[0], each.need.component} <= asked]
    for doubt in direct or doubts:
        name, required = doubt.need.component, spoken(allowed_range(doubt.need))
        others = " and ".join(_others(catalog, nearest, doubt))
        instead = doubt.version or others or spoken(question.wishes.get(name, ""))
        reason = f"{doubt.by} is documented with {name} {required}, not {instead}"
        yield f"{reason}. {doubt.need.because}".strip()


def _colliding(
    catalog: Catalog, smallest: SolveQuery, demands: Iterable[Demand]
) -> tuple[Demand, ...]:
    """Two demands that exclude each other alone; none if it takes more.

    Only fixed ones count: a request, a machine fact, and the needs of a requested version.
    """
    wished = {f"{name} {text.removeprefix('==')}" for name, text in smallest.wishes.items()}
    fixed = [each for each in demands if each.need is None or each.by in wished]
    for exact, other in itertools.permutations(fixed, 2):
        version = EXACT.fullmatch(exact.versions)
        if version is None or exact.component != other.component or not other.binding:
            continue
        scheme = catalog.component(other.component).scheme
        if satisfies(scheme, version[1], other.versions) is other.negated:
            return exact, other
    return ()


def _others(catalog: Catalog, nearest: Solution, doubt: Doubt) -> Iterator[str]:
    name = doubt.need.component
    for part, version in nearest.versions.items():
        row = catalog.component(part).release(version)
        for need in row.requires if row else ():
            allowed = allowed_range(need)
            if need.component == name and allowed in nearest.ranges.get(name, ()):
                yield f"{allowed.replace(' || ', ' or ')} as {part} {version} needs it"


def _without_fact(question: SolveQuery, name: str) -> SolveQuery:
    rest = {
        component: version for component, version in question.machine.items() if component != name
    }
    return replace(question, machine=rest)


def _without_wish(question: SolveQuery, name: str) -> SolveQuery:
    rest = {component: wish for component, wish in question.wishes.items() if component != name}
    return replace(question, wishes=rest)


def _parts(question: SolveQuery) -> Iterator[tuple[Callable[[SolveQuery, str], SolveQuery], str]]:
    """All parts; the first are left out first, to keep what users can change."""
    for name, version_range in question.wishes.items():
        if not version_range:
            yield _without_wish, name
    for name in sorted(question.machine, key=lambda component: component == "cann"):
        yield _without_fact, name
    for name, version_range in question.wishes.items():
        if version_range:
            yield _without_wish, name


def _ends(catalog: Catalog, causes: Iterable[Demand]) -> Iterator[str]:
    alike: dict[tuple[str, str, str], list[Demand]] = {}
    for cause in causes:
        asker = cause.by.partition(" ")[0] if cause.need else cause.by
        same = alike.setdefault((asker, cause.component, cause.versions), [])
        if all(cause.by != other.by for other in same):
            same.append(cause)
    lines: dict[tuple[str, str], list[tuple[str, list[Demand]]]] = {}
    for (asker, component, versions), demands in alike.items():
        need = demands[0].need
        if need is None:
            part, exact = catalog.component(component), EXACT.fullmatch(versions)
            if exact and part.releases and not meets(part, (versions,)):
                near = near_rows(part, exact[1])
                yield f"the matrix has no {component} {spoken(versions)}; near are {near}"
                continue
            verb = {"you": "you want", "this machine": "this machine has"}.get(asker)
            yield f"{verb or f'{asker} provides'} {component} {spoken(versions)}"
            continue
        verb = "excludes" if demands[0].negated else "needs" if need.hard else "is documented with"
        same_reason = lines.setdefault((f"{asker} {{}} {verb} {component}", need.because), [])
        same_reason.append((spoken(versions), demands))
    for (form, because), groups in lines.items():
        # If many versions need as many ranges, all explain no more than some.
        for some in [[group] for group in groups] if len(groups) < _MANY else [groups]:
            askers = [demand.by.partition(" ")[2] for _, demands in some for demand in demands]
            ranges = first_of([versions for versions, _ in some], 2)
            yield f"{form.format(first_of(askers, 2))} {ranges}. {because}".strip()


def spoken(versions: str) -> str:
    """A range in words: "8.5.1 or 9.0.0"."""
    return versions.replace("==", "").replace(" || ", " or ") or "of any version"


def _changes(catalog: Catalog, question: SolveQuery, smallest: SolveQuery) -> Iterator[str]:
    for name in smallest.machine:
        solution = solve(catalog, _without_fact(question, name))
        if solution and name in solution.versions:
            title = catalog.component(name).title
            yield f"{title} {solution.versions[name]} instead of {question.machine[name]}"
    for name in smallest.wishes:
        if question.wishes[name]:
            wishes = {**question.wishes, name: ""}
            solution = solve(catalog, replace(question, wishes=wishes))
        else:
            solution = solve(catalog, _without_wish(question, name))
        if solution and name in solution.versions:
            shown = (component for component in (name, *_TOLD) if component in solution.versions)
            pins = (
                f"{catalog.component(fromkey).title} {solution.versions[fromkey]}"
                for fromkey in dict.fromkeys(shown)
                if fromkey not in question.machine
            )
            yield ", ".join(pins)
        elif solution:
            yield f"leave out {catalog.component(name).title}"
