"""The door of setup: from what was asked for to the lock of the stack.

Each step acts on what it finds, so an interrupted setup continues. A checkout appears by a rename,
an environment counts once its mark is written, the lock is written last. Only a stack that passes
its proof is put in use.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from ascend_doctor import timestamps
from ascend_doctor.provision import bundle
from ascend_doctor.provision import lock as locks
from ascend_doctor.provision.checkouts import Checkouts
from ascend_doctor.provision.environment import VirtualEnvironment
from ascend_doctor.provision.git import Git
from ascend_doctor.provision.helpers import compile_helpers
from ascend_doctor.provision.lock import Checkout, Lock
from ascend_doctor.provision.options import Plan, SetupOptions
from ascend_doctor.provision.plan import make_plan
from ascend_doctor.provision.running import exclusively


def build(options: SetupOptions) -> Lock:
    """Plan, build, write the lock, prove the stack, and put it in use.

    It is proven if it changed or was never proven at ``options.level``. A failed one is not put
    in use: the returned lock has its proof. Raises NoStackError if no stack fits, DataError for
    a decision of the user, CommandError and OSError for what failed.
    """
    plan = make_plan(options)
    folder, steps = options.prefix.stack(plan.lock.id), options.steps
    steps.show_plan(plan, finished=options.prefix.is_built(plan.lock.id))
    with exclusively(options.prefix.exclusion) as held:
        options = replace(options, runner=replace(options.runner, held=held))
        before = _build(options, plan, folder)
        lock = msgspec.structs.replace(
            before, wish=plan.lock.wish, accepted_checks=plan.lock.accepted_checks
        )
        if lock != before:
            locks.write(folder / locks.FILE, lock)
        if options.target:
            _carry(options, lock)
            return lock
        if steps.changed or lock.failed or not lock.proof or lock.proof.level < options.level:
            with steps.step("proof") as done:
                lock = msgspec.structs.replace(lock, proof=options.prove(folder, lock))
                locks.write(folder / locks.FILE, lock)
                done("failed" if lock.failed else "built", lock.proof_summary)
        if not lock.failed and options.prefix.current() != folder:
            with steps.step("stack in use") as done:
                options.prefix.switch(lock.id)
                done("built", str(folder))
        if options.bundle and not lock.failed:
            _carry(options, lock)
    return lock


def _carry(options: SetupOptions, lock: Lock) -> None:
    if options.bundle:
        with options.steps.step("bundle", options.bundle) as done:
            bundle.write(options.bundle, options.prefix, lock, Git(runner=options.runner))
            done("built", str(options.bundle))


def _build(options: SetupOptions, plan: Plan, folder: Path) -> Lock:
    file = folder / locks.FILE
    before = locks.read(folder) if options.prefix.is_built(plan.lock.id) else None
    checkouts = Checkouts(options, folder, finished=before is not None)
    pinned = checkouts.build(_pin_as_before(plan.lock.checkouts, before), ask=not plan.exact)
    plan = replace(plan, lock=msgspec.structs.replace(plan.lock, checkouts=pinned))
    environment = VirtualEnvironment(options, plan, folder)
    if options.target:
        wheels = environment.fetch(before)
    else:
        wheels = environment.build(before)
        compile_helpers(options, folder, environment.pip.python)
    if before is not None:
        return before
    with options.steps.step("lock") as done:
        lock = msgspec.structs.replace(
            plan.lock,
            created_at=timestamps.now(),
            checkouts=checkouts.trees(pinned),
            wheels=wheels,
            as_of="" if environment.without_dates.exists() else plan.lock.as_of,
        )
        locks.write(file, lock)
        done("built", str(file))
    return lock


def _pin_as_before(checkouts: Sequence[Checkout], before: Lock | None) -> tuple[Checkout, ...]:
    """An unpinned checkout keeps its earlier commit."""
    commits = {checkout.name: checkout.commit for checkout in before.checkouts} if before else {}
    return tuple(
        msgspec.structs.replace(checkout, commit=checkout.commit or commits.get(checkout.name, ""))
        for checkout in checkouts
    )
