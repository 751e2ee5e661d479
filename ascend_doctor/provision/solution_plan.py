"""A solution of the matrix as a plan: what git checks out, and what pip is asked for."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec

from ascend_doctor.errors import DataError
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.schema import Component, Release, Stack
from ascend_doctor.matrix.sets import PinnedSet
from ascend_doctor.matrix.versions import narrow, satisfies
from ascend_doctor.provision.demand import EXACT
from ascend_doctor.provision.lock import SETTINGS, Checkout, Lock, Setting
from ascend_doctor.provision.options import Plan, SetupOptions
from ascend_doctor.provision.request_ranges import refs_of, split_additions
from ascend_doctor.provision.solve import Solution
from ascend_doctor.provision.system_packages import install_commands

_COMMIT = re.compile(r"[0-9a-f]{40}")
_PATH_FIRST = ("megatron-lm", "mindspeed")


def plan_solution(
    options: SetupOptions, solution: Solution, machine: Mapping[str, str], plan: Plan
) -> Plan:
    """The plan with a solution, versions by component. Raises DataError for git without a ref."""
    catalog, versions, lock = options.catalog, solution.versions, plan.lock
    refs = solution.refs | refs_of(catalog, options.additions)
    names = {*versions, *refs}
    parts = [catalog.component(name) for name in _in_order(catalog, names) if name in versions]
    checkouts = tuple(
        _checkout(part, versions, refs.get(part.id, ""))
        for part in map(catalog.component, _in_order(catalog, names))
        if part.obtain.kind == "git" or part.id in refs
    )
    there = {name for checkout in checkouts for name in checkout.provides}
    there |= {*lock.preserved, *refs}
    pip = [part for part in parts if part.obtain.kind == "pip" and part.id not in there]
    pins = {part.id: f"{part.obtain.distribution}=={versions[part.id]}" for part in pip}
    stack = nearest_stack(catalog, solution)
    lock = msgspec.structs.replace(
        lock,
        checkouts=checkouts,
        settings=tuple(_settings(catalog, stack, plan.based_on)),
        pythonpath=_pythonpath(checkouts),
        rows={
            part.id: versions[part.id]
            for part in parts
            if part.obtain.kind == "git" or part.id not in refs
        },
        stacks=solution.stacks or ((stack.id,) if stack else ()),
        system={part.id: versions[part.id] for part in parts if part.obtain.kind == "system"},
        install=_install(catalog, parts, versions, machine.get("soc")),
        as_of=_youngest(parts, versions) if options.as_of is None else options.as_of,
    )
    return Plan(
        lock=lock,
        python=plan.python,
        requirements=(*pins.values(), *_requirements(options, solution, refs)),
        constraints=(*pins.values(), *_constraints(catalog, solution, refs)),
        indexes=indexes_by_pin(catalog, lock),
        missing=tuple(_missing(options, parts, versions, machine)),
        doubts=(*_doubts(solution), *_doubt_refs(refs, versions)),
        based_on=plan.based_on,
    )


def _youngest(parts: Iterable[Component], versions: Mapping[str, str]) -> str:
    """The day of the stack's youngest row; "" if no row has one.

    Unbounded packages are of that day: later releases were never tried with the stack.
    """
    rows = (part.release(versions[part.id]) for part in parts if part.obtain.kind != "system")
    days = [day for row in rows if row for day in (row.released, row.attributes.get("last_commit"))]
    return max((day for day in days if day), default="")


def indexes_by_pin(catalog: Catalog, lock: Lock) -> dict[str, tuple[str, ...]]:
    """The documented indexes of what a lock's rows pin for pip."""
    parts = [(catalog.component(name), version) for name, version in lock.rows.items()]
    return {
        f"{part.obtain.distribution}=={version}": urls
        for part, version in parts
        if part.obtain.kind == "pip" and (urls := indexes_of(part, lock))
    }


def indexes_of(part: Component, lock: Lock) -> tuple[str, ...]:
    """Documented indexes of a component on this machine."""
    machine = {"arch": lock.python.arch}
    return tuple(
        index.url
        for index in part.obtain.indexes
        if satisfies(part.scheme, lock.rows[part.id], index.versions)
        and all(machine.get(name) == value for name, value in index.when.items())
    )


def _in_order(catalog: Catalog, names: Iterable[str]) -> list[str]:
    left, done = sorted(names), list[str]()
    while left:
        # In a circle nothing is ready; the first by name goes on.
        ready = next(
            (name for name in left if not set(catalog.component(name).after) & set(left)), left[0]
        )
        left.remove(ready)
        done.append(ready)
    return done


def _checkout(component: Component, versions: Mapping[str, str], named: str) -> Checkout:
    """What git checks out: the row's ref, or the ``named`` one.

    A named one counts as providing what the row does, with which the rest was solved.
    """
    git = component.obtain.kind == "git"
    row = component.release(versions[component.id]) if git else None
    ref = named or (row and row.ref)
    if not ref:
        raise DataError(f"the row {component.id} {versions[component.id]} has no git ref")
    provides = row.provides if row else {}
    return Checkout(
        name=component.id,
        version=row.version if row else named,
        ref=ref,
        commit=_commit(row, named),
        url=component.repository,
        moving=row is not None and row.moving and not named,
        editable=component.obtain.editable or bool(component.obtain.distribution),
        provides={
            name: provide for name, provide in provides.items() if versions.get(name) == provide
        },
    )


def _commit(row: Release | None, named: str) -> str:
    if named:
        return named if _COMMIT.fullmatch(named) else ""
    return (row.commit if row else "") or ""


def _doubt_refs(refs: Mapping[str, str], versions: Mapping[str, str]) -> Iterator[str]:
    for name, ref in refs.items():
        solved = f", and the rest is for {versions[name]}" if name in versions else ""
        yield f"{name} is taken from {ref}, of which the matrix says nothing{solved}"


def _requirements(
    options: SetupOptions, solution: Solution, refs: Collection[str]
) -> Iterator[str]:
    catalog = options.catalog
    open_ranges = {name: bounds for name, bounds in solution.ranges.items() if name not in refs}
    bounded = [catalog.component(name).obtain.distribution for name in open_ranges]
    for name, ranges in open_ranges.items():
        obtain = catalog.component(name).obtain
        exact = next(filter(EXACT.fullmatch, ranges), "")
        if obtain.source_build and not exact:
            raise DataError(
                f"{name} is built from its source: name a version, as in --with {name}==…"
            )
        yield f"{obtain.distribution}{exact if obtain.source_build else ''}"
    yield from split_additions(catalog, options.additions)
    # Megatron compiles its dataset index with pybind11 (megatron/core/datasets/Makefile).
    builds = {"pybind11"} if "megatron-lm" in solution.versions else set()
    yield from sorted({*options.undeclared, *builds} - set(bounded))


def _constraints(catalog: Catalog, solution: Solution, refs: Collection[str]) -> Iterator[str]:
    for name, ranges in solution.ranges.items():
        if name in refs:
            continue
        component = catalog.component(name)
        # The solver found an exact one within all of them.
        bounds = next(filter(EXACT.fullmatch, ranges), narrow(ranges))
        if "||" in bounds:
            raise DataError(f"pip cannot be told {name} {bounds}; pin it in an overlay")
        if bounds:
            yield f"{component.obtain.distribution}{bounds.replace(' ', '')}"
    for hazard in catalog.hazards.hazards:
        if hazard.kind == "placeholder" and hazard.versions.startswith("=="):
            yield f"{hazard.name}!={hazard.versions.removeprefix('==')}"


def nearest_stack(catalog: Catalog, solution: Solution) -> Stack | None:
    """The stack that it is within, or one with its Megatron-LM and MindSpeed."""
    pins = {
        name: version
        for name, version in solution.versions.items()
        if catalog.component(name).obtain.kind == "git"
    }
    for stack in catalog.stacks:
        shared = [name for name in pins if name in stack.components]
        if stack.id in solution.stacks or (
            set(_PATH_FIRST) <= {*shared}
            and all(
                satisfies(catalog.component(name).scheme, pins[name], stack.components[name])
                for name in shared
            )
        ):
            return stack
    return None


def _settings(
    catalog: Catalog, stack: Stack | None, based_on: PinnedSet | None
) -> Iterator[Setting]:
    own = based_on.environment if based_on else {}
    values = {name: value for name, value in own.items() if name in SETTINGS}
    for name, value in ((stack.environment if stack else {}) | values).items():
        if name not in SETTINGS:
            raise DataError(
                f"environment: a lock cannot set {name}; it sets {' and '.join(SETTINGS)}"
            )
        variable = catalog.variables.find(name)
        yield Setting(name=name, value=value, why=variable.meaning if variable else "")


def _pythonpath(checkouts: Iterable[Checkout]) -> tuple[str, ...]:
    """Megatron-LM, MindSpeed, then what runs in place without installation (MindSpeed-LLM)."""
    paths = {checkout.name: checkout.path for checkout in checkouts}
    in_place = [checkout.name for checkout in checkouts if not checkout.editable]
    names = dict.fromkeys((*_PATH_FIRST, *in_place))
    return tuple(paths[name] for name in names if name in paths)


def _install(
    catalog: Catalog, parts: Iterable[Component], versions: Mapping[str, str], family: str | None
) -> dict[str, tuple[str, ...]]:
    commands = {
        part.id: install_commands(catalog, part.id, versions[part.id], family)
        for part in parts
        if part.obtain.kind == "system"
    }
    return {name: tuple(by_manager.values()) for name, by_manager in commands.items() if by_manager}


def _missing(
    options: SetupOptions,
    parts: Iterable[Component],
    versions: Mapping[str, str],
    machine: Mapping[str, str],
) -> Iterator[str]:
    catalog, family = options.catalog, machine.get("soc")
    host = options.facts.host if options.target is None else None
    for part in parts:
        if part.obtain.kind != "system" or part.id in machine:
            continue
        text = f"{part.title} {versions[part.id]} is not on this machine"
        packages = catalog.family(family).ops_packages if family and part.id == "cann" else ()
        with_packages = f", with {' or '.join(packages)} of that version" if packages else ""
        yield f"{text}: have it installed{with_packages}; setup never does"
        commands = install_commands(catalog, part.id, versions[part.id], family)
        ours = [manager for manager in commands if host and host.os_id in manager.systems]
        for manager in ours or commands:
            yield f"{commands[manager]}, from {manager.repository}"


def _doubts(solution: Solution) -> Iterator[str]:
    for doubt in solution.doubts:
        instead = f"got {doubt.version}" if doubt.version else "another range is needed"
        needed = f"{doubt.need.component} {doubt.need.versions}"
        yield f"{doubt.by} is documented with {needed}; {instead}"
