"""What a setup is going to do, as data: from a solution of the matrix, or from a lock."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from ascend_doctor.errors import DataError
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.schema import Component, Stack
from ascend_doctor.matrix.versions import satisfies
from ascend_doctor.provision.lock import BasePython, Checkout, Lock, Setting, Wheel
from ascend_doctor.provision.solve import Solution

_EXACT = re.compile(r"==[^|,*\s]+")
_PATH_FIRST = ("megatron-lm", "mindspeed")


@dataclass(frozen=True, kw_only=True)
class Base:
    """The interpreter that environments are made of."""

    executable: str
    facts: BasePython


@dataclass(frozen=True, kw_only=True)
class Plan:
    """``id`` names the stack's folder and depends on what is built, not on where or when.

    A checkout without a commit is pinned to what its ref names once a server was asked.
    ``requirements`` and ``constraints`` are pip's. ``wheels`` are exact where the plan is a
    lock's, else None. ``missing`` are system versions that the machine lacks. ``as_of``: the day
    after which no file of an index counts, "" for none. ``indexes`` are those that documents name,
    by requirement. ``kept`` are packages that are there and stay, by name.
    """

    id: str
    wish: dict[str, str]
    base: Base
    checkouts: tuple[Checkout, ...]
    requirements: tuple[str, ...]
    constraints: tuple[str, ...]
    wheels: tuple[Wheel, ...] | None = None
    settings: tuple[Setting, ...] = ()
    pythonpath: tuple[str, ...] = ()
    rows: Mapping[str, str]
    stacks: tuple[str, ...] = ()
    system: Mapping[str, str]
    missing: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    venv: str = "venv"
    as_of: str = ""
    indexes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    kept: Mapping[str, str] = field(default_factory=dict)

    def with_checkouts(self, checkouts: Iterable[Checkout]) -> Plan:
        return replace(self, checkouts=tuple(checkouts))


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """A solution and what it answers. ``machine``: versions by component as they were found.

    ``undeclared`` are packages that CANN and torch_npu import without requiring them; ``added``
    are requirements of the user's that the matrix does not know. ``as_of``: None is the day of
    the youngest row. ``kept`` as in Plan.
    """

    wish: Mapping[str, str]
    machine: Mapping[str, str]
    solution: Solution
    base: Base
    venv: str
    undeclared: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    as_of: str | None = None
    kept: Mapping[str, str] = field(default_factory=dict)


def make_plan(catalog: Catalog, options: PlanOptions) -> Plan:
    """The plan for a solution. Raises DataError for a component of git without a ref."""
    versions = options.solution.versions
    parts = [catalog.component(name) for name in _in_order(catalog, versions)]
    checkouts = tuple(_checkout(part, versions) for part in parts if part.obtain.kind == "git")
    provided = {name for checkout in checkouts for name in checkout.provides}
    pip = [
        part
        for part in parts
        if part.obtain.kind == "pip" and part.id not in provided and part.id not in options.kept
    ]
    stack = _nearest(catalog, options.solution, checkouts)
    plan = Plan(
        id="",
        wish=dict(options.wish),
        base=options.base,
        checkouts=checkouts,
        requirements=tuple(_requirements(catalog, pip, options)),
        constraints=tuple(_constraints(catalog, pip, options.solution)),
        settings=tuple(_settings(catalog, stack)),
        pythonpath=_pythonpath(checkouts),
        rows=dict(versions),
        stacks=options.solution.stacks or ((stack.id,) if stack else ()),
        system={part.id: versions[part.id] for part in parts if part.obtain.kind == "system"},
        missing=tuple(_missing(catalog, parts, options)),
        doubts=tuple(_doubts(options.solution)),
        venv=options.venv,
        as_of=_youngest(parts, versions) if options.as_of is None else options.as_of,
        indexes=dict(_indexes(pip, options)),
        kept=dict(options.kept),
    )
    return replace(plan, id=_identity(plan))


def from_lock(lock: Lock, base: Base, venv: str, *, there: Lock | None = None) -> Plan:
    """The plan that builds a lock's stack again. Raises DataError for another Python or machine.

    ``there`` is the lock of the stack that has this lock's id in the prefix: where it is of the
    same stack, that stack is meant, and repaired rather than built beside.
    """
    for what in ("tag", "arch"):
        ours, theirs = getattr(base.facts, what), getattr(lock.python, what)
        if ours != theirs:
            raise DataError(
                f"the lock is for {theirs}; {base.executable} is {ours}; name one with --python"
            )
    plan = Plan(
        id="",
        wish=lock.wish,
        base=base,
        checkouts=lock.checkouts,
        requirements=tuple(f"{wheel.name}=={wheel.version}" for wheel in lock.wheels),
        constraints=(),
        wheels=lock.wheels,
        settings=lock.settings,
        pythonpath=lock.pythonpath,
        rows=lock.rows,
        stacks=lock.stacks,
        system=lock.system,
        venv=venv,
        as_of=lock.as_of,
        kept=lock.kept,
    )
    same = there is not None and venv == lock.venv and _content(there) == _content(lock)
    return replace(plan, id=lock.id if same else _identity(plan))


def _content(lock: Lock) -> tuple[object, ...]:
    return (lock.checkouts, lock.wheels, lock.settings, lock.pythonpath, lock.python.tag, lock.venv)


def _youngest(parts: Iterable[Component], versions: Mapping[str, str]) -> str:
    """The day of the youngest row of the stack; "" where no row has one.

    What nothing bounds is taken as it was then: later releases were never tried with the stack.
    """
    rows = (part.release(versions[part.id]) for part in parts if part.obtain.kind != "system")
    days = [day for row in rows if row for day in (row.released, row.attributes.get("last_commit"))]
    return max((day for day in days if day), default="")


def _indexes(
    pip: Iterable[Component], options: PlanOptions
) -> Iterator[tuple[str, tuple[str, ...]]]:
    machine = {"arch": options.base.facts.arch}
    for part in pip:
        version = options.solution.versions[part.id]
        urls = tuple(
            index.url
            for index in part.obtain.indexes
            if satisfies(part.scheme, version, index.versions)
            and all(machine.get(name) == value for name, value in index.when.items())
        )
        if urls:
            yield f"{part.obtain.distribution}=={version}", urls


def _identity(plan: Plan) -> str:
    """A readable name with a digest of all that decides what is built."""
    ref = plan.checkouts[0].ref if plan.checkouts else "stack"
    decisive = (
        *(
            [checkout.name, checkout.ref, checkout.commit, checkout.editable, checkout.provides]
            for checkout in plan.checkouts
        ),
        *(plan.requirements, plan.constraints, plan.settings, plan.pythonpath, plan.venv),
        *(plan.base.facts.tag, plan.base.facts.arch, plan.wheels, plan.as_of, plan.kept),
    )
    digest = hashlib.blake2b(msgspec.json.encode(decisive), digest_size=5).hexdigest()
    return f"{re.sub(r'[^A-Za-z0-9._-]', '-', ref)}-{digest}"


def _in_order(catalog: Catalog, names: Iterable[str]) -> list[str]:
    """Components after those that their rows say come first; else by name."""
    left, done = sorted(names), list[str]()
    while left:
        ready = next(
            (name for name in left if not set(catalog.component(name).after) & set(left)), left[0]
        )
        left.remove(ready)
        done.append(ready)
    return done


def _checkout(component: Component, versions: Mapping[str, str]) -> Checkout:
    row = component.release(versions[component.id])
    if row is None or not row.ref:
        raise DataError(f"the row {component.id} {versions[component.id]} has no git ref")
    return Checkout(
        name=component.id,
        version=row.version,
        ref=row.ref,
        commit=row.commit or "",
        url=component.obtain.url,
        moving=row.moving,
        editable=component.obtain.editable or bool(component.obtain.distribution),
        provides={
            name: provide for name, provide in row.provides.items() if versions.get(name) == provide
        },
    )


def _requirements(
    catalog: Catalog, pip: Iterable[Component], options: PlanOptions
) -> Iterator[str]:
    for component in pip:
        yield f"{component.obtain.distribution}=={options.solution.versions[component.id]}"
    ranges = options.solution.ranges
    bounded = [catalog.component(name).obtain.distribution for name in ranges]
    yield from bounded
    yield from options.added
    # Megatron compiles its index of datasets with pybind11 (megatron/core/datasets/Makefile).
    builds = {"pybind11"} if "megatron-lm" in options.solution.versions else set()
    yield from sorted({*options.undeclared, *builds} - set(bounded))


def _constraints(catalog: Catalog, pip: Iterable[Component], solution: Solution) -> Iterator[str]:
    """Exact pins, the ranges that rows give, and no version that is a placeholder."""
    for one in pip:
        yield f"{one.obtain.distribution}=={solution.versions[one.id]}"
    for name, ranges in solution.ranges.items():
        component = catalog.component(name)
        for bounds in ranges:
            if "||" in bounds and any(_EXACT.fullmatch(other) for other in ranges):
                continue  # the solver found that one within all of them
            if "||" in bounds:
                raise DataError(f"pip cannot be told {name} {bounds}; pin it in an overlay")
            yield f"{component.obtain.distribution}{bounds.replace(' ', '')}"
    for hazard in catalog.hazards.hazards:
        if hazard.kind == "placeholder" and hazard.versions.startswith("=="):
            yield f"{hazard.name}!={hazard.versions.removeprefix('==')}"


def _nearest(catalog: Catalog, solution: Solution, checkouts: Iterable[Checkout]) -> Stack | None:
    """The documented stack of these checkouts, whose environment is theirs as well."""
    pins = {checkout.name: checkout.version for checkout in checkouts}
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


def _settings(catalog: Catalog, stack: Stack | None) -> Iterator[Setting]:
    """What the row of the stack asks for; what follows from its trees ``variables`` computes."""
    for name, value in (stack.environment if stack else {}).items():
        variable = catalog.variables.find(name)
        yield Setting(name=name, value=value, why=variable.meaning if variable else "")


def _pythonpath(checkouts: Iterable[Checkout]) -> tuple[str, ...]:
    """Megatron-LM and MindSpeed first; what is installed by reference is found without it."""
    paths = {checkout.name: checkout.path for checkout in checkouts}
    return tuple(paths[name] for name in _PATH_FIRST if name in paths)


def _missing(catalog: Catalog, parts: Iterable[Component], options: PlanOptions) -> Iterator[str]:
    """What an administrator has to get, exactly."""
    family = options.machine.get("soc")
    for part in parts:
        if part.obtain.kind != "system" or part.id in options.machine:
            continue
        text = f"{part.title} {options.solution.versions[part.id]} is not on this machine"
        packages = catalog.family(family).ops_packages if family and part.id == "cann" else ()
        with_packages = f", with {' or '.join(packages)} of that version" if packages else ""
        yield f"{text}: have it installed{with_packages}; setup never does"


def _doubts(solution: Solution) -> Iterator[str]:
    for doubt in solution.doubts:
        instead = f"got {doubt.version}" if doubt.version else "another range is needed"
        needed = f"{doubt.need.component} {doubt.need.versions}"
        yield f"{doubt.by} is documented with {needed}; {instead}"
