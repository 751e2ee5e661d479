"""From what a setup was asked for to a plan: by a lock, or by the matrix and the machine."""

import hashlib
import itertools
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import msgspec

from ascend_doctor import __version__
from ascend_doctor.errors import DataError
from ascend_doctor.facts import Python, Snapshot
from ascend_doctor.machine.files import not_trusted
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.versions import normalised
from ascend_doctor.provision import bundle
from ascend_doctor.provision import lock as locks
from ascend_doctor.provision.accepted import describe_accepted, parse_conflicts
from ascend_doctor.provision.conflict import NoStackError, refusal
from ascend_doctor.provision.known_good import with_known_good
from ascend_doctor.provision.lock import BasePython, Lock
from ascend_doctor.provision.options import Plan, SetupOptions
from ascend_doctor.provision.request_ranges import StackRequest, machine_of
from ascend_doctor.provision.set_choice import Answer, SetSearch
from ascend_doctor.provision.solution_plan import indexes_by_pin, plan_solution
from ascend_doctor.provision.solve import Solution, SolveQuery, solve

# vllm comes with vllm-ascend, made for one release of it.
_ROLLOUT = {"verl": ("vllm-ascend",)}


def make_plan(options: SetupOptions) -> Plan:
    """What to build, by bundle, lock or matrix. Raises NoStackError if none fits, and DataError."""
    lock = _lock(options)
    if lock is None:
        return _from_matrix(options)
    for name, value in options.wish.items():
        if lock.wish.get(name) != value:
            raise DataError(f"the lock is of {name} {lock.wish.get(name, 'none')}, not {value}")
    built = options.prefix.is_built(lock.id)
    same = locks.read(options.prefix.stack(lock.id)) if built else None
    plan = replace(_empty_plan(options), indexes=indexes_by_pin(options.catalog, lock))
    return from_lock(lock, plan, there=same)


def from_lock(lock: Lock, plan: Plan, *, there: Lock | None = None) -> Plan:
    """The plan that rebuilds a lock's stack. Raises DataError for another Python or machine.

    ``plan`` has no components. ``there`` is the lock with this id in the prefix: if it is of
    the same stack, that one is repaired instead of a new build.
    """
    for what in ("tag", "arch"):
        ours, theirs = getattr(plan.lock.python, what), getattr(lock.python, what)
        if ours != theirs:
            raise DataError(
                f"the lock is for {theirs}; {plan.python} is {ours}; name one with --python"
            )
    python, venv = plan.lock.python, plan.lock.venv
    same = there is not None and venv == lock.venv and _content(there) == _content(lock)
    locked = replace(
        plan,
        lock=msgspec.structs.replace(
            lock, tool_version=__version__, python=python, venv=venv, proof=None
        ),
        exact=True,
        requirements=tuple(f"{wheel.name}=={wheel.version}" for wheel in lock.wheels),
    )
    return locked if same else _name(locked)


def _content(lock: Lock) -> tuple[object, ...]:
    return (lock.checkouts, lock.wheels, lock.settings, lock.pythonpath, lock.python.tag, lock.venv)


def _name(plan: Plan) -> Plan:
    lock = plan.lock
    ref = lock.checkouts[0].ref if lock.checkouts else "stack"
    decisive = (
        *(
            [checkout.name, checkout.ref, checkout.commit, checkout.editable, checkout.provides]
            for checkout in lock.checkouts
        ),
        *(plan.requirements, plan.constraints, lock.settings, lock.pythonpath, lock.venv),
        *(lock.python.tag, lock.python.arch, lock.wheels if plan.exact else None),
        *(lock.as_of, lock.preserved, *lock.accepted),
    )
    digest = hashlib.blake2b(msgspec.json.encode(decisive), digest_size=5).hexdigest()
    identity = f"{re.sub(r'[^A-Za-z0-9._-]', '-', ref)}-{digest}"
    return replace(plan, lock=msgspec.structs.replace(lock, id=identity))


def _lock(options: SetupOptions) -> Lock | None:
    if options.carried:
        return bundle.read(options.carried)
    if not options.locked:
        return None
    if options.lock:
        return locks.read(Path(options.lock))
    here, current = Path(locks.FILE), options.prefix.current()
    if here.is_file() and (why := not_trusted(str(here))):
        raise DataError(f"./{here}: {why}; name it with --lock to build what it says")
    return locks.read(here if here.is_file() or current is None else current)


def _from_matrix(options: SetupOptions) -> Plan:
    catalog, preserved = options.catalog, _preserve(options)
    target = options.target
    machine = dict(target.facts) if target else machine_of(options.facts, catalog)
    machine |= {name: preserved[name] for name in preserved if name in catalog.component_ids}
    known = "soc" in machine
    machine.setdefault("soc", catalog.usual_family.id)
    name = options.request.framework_name
    ranges = options.request.ranges(catalog)
    if name and name not in catalog.component_ids:
        hint = f"`ascend-doctor matrix solve --framework {name}` has its versions"
        raise DataError(f"--framework {name}: setup does not install it; {hint}")
    ranges |= target.ranges if target else {}
    accepted = parse_conflicts(catalog, options.accept)
    query = SolveQuery(wishes=ranges, machine=machine, accepted=accepted)
    answer = SetSearch(catalog, query, options.request, solve).build()
    if answer is None:
        raise NoStackError(refusal(catalog, query), query)
    solution = answer.solution
    # What a framework's NPU guide installs for generation, which training does not need.
    rollout = [
        name for name in _ROLLOUT.get(options.request.framework_name, ()) if name not in ranges
    ]
    whole = _solve_with(catalog, query, answer, rollout, options.request) if rollout else None
    solution = whole or solution
    plan = _empty_plan(options)
    conflicts = describe_accepted(solution, accepted)
    lock = msgspec.structs.replace(plan.lock, preserved=preserved, accepted=conflicts)
    plan = replace(plan, lock=lock, based_on=answer.chosen)
    plan = plan_solution(options, solution, machine, plan)
    left_out = rollout if whole is None else []
    family = catalog.usual_family.title
    unsure = () if known else (f"this machine has no known chip: the stack is for {family}",)
    doubts = (*unsure, *answer.differences, *plan.doubts, *_doubt_left_out(left_out, solution))
    plan = _name(replace(plan, doubts=doubts))
    return _name(with_known_good(options, plan))


def _doubt_left_out(names: Iterable[str], solution: Solution) -> Iterator[str]:
    releases = [
        f"{name}=={solution.versions[name]}" for name in _ROLLOUT if name in solution.versions
    ]
    for name, release in itertools.product(names, releases):
        yield f"without {name}, which does not fit here; see --framework {release} --with {name}"


def _solve_with(
    catalog: Catalog, query: SolveQuery, base: Answer, more: Iterable[str], request: StackRequest
) -> Solution | None:
    wishes = {**query.wishes, **dict.fromkeys(more, "")}
    if base.chosen:
        search = SetSearch(catalog, replace(query, wishes=wishes), request, solve)
        answer = search.build()
        return answer.solution if answer and answer.chosen == base.chosen else None
    same = {
        name: f"=={version}"
        for name, version in base.solution.versions.items()
        if catalog.component(name).obtain.kind == "git"
    }
    return solve(catalog, replace(query, wishes={**wishes, **same}))


def _empty_plan(options: SetupOptions) -> Plan:
    python, target = _python(options.facts), options.target
    tag = "cp" + "".join(python.version.split(".")[:2])
    base = BasePython(version=python.version, tag=tag, arch=arch_of(options.facts))
    if target:
        base = BasePython(version=target.python, tag=target.tag, arch=target.arch)
    lock = Lock(
        tool_version=__version__,
        id="",
        created_at="",
        wish=options.wish,
        accepted_checks=options.accepted_checks,
        python=base,
        checkouts=(),
        wheels=(),
        venv=_environment(options),
    )
    return Plan(lock=lock, python=python.executable)


def arch_of(facts: Snapshot) -> str:
    """Of the interpreter that makes the environment."""
    python = facts.python
    return (python and python.machine) or (facts.host.arch if facts.host else "")


def _python(facts: Snapshot) -> Python:
    if facts.python is None:
        raise DataError("there is no Python to make an environment of; name one with --python")
    return facts.python


def _environment(options: SetupOptions) -> str:
    """As in the lock: "venv" in the stack, or a full path."""
    if options.venv:
        return os.path.abspath(options.venv)
    if not options.active:
        return "venv"
    python = options.facts.python
    if python is None or python.prefix == python.base_prefix:
        raise DataError("--active: no virtual environment is active")
    return python.prefix


def _preserve(options: SetupOptions) -> dict[str, str]:
    names = [normalised(name) for name in options.keep]
    python = options.facts.python
    if not names or python is None:
        return {}
    inside = options.venv or options.active
    if not inside and python.prefix != python.base_prefix:
        raise DataError(
            f"--keep: {python.executable} is a virtual environment, whose packages another "
            "one cannot see; add --active, or name the interpreter below it with --python"
        )
    there = {name: python.find(name) for name in names}
    if lacking := [name for name, distribution in there.items() if distribution is None]:
        raise DataError(f"--keep: {python.executable} does not have {', '.join(lacking)}")
    return {name: distribution.version for name, distribution in there.items() if distribution}
