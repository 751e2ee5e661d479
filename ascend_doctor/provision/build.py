"""Builds what a plan says, step by step; what is there already and right is left as it is.

Every step looks first and acts on what it finds, so that a setup that was interrupted anywhere
goes on, and a damaged stack is repaired. A checkout appears whole by a rename; an environment
counts once its mark is written; the lock is written last. Then the stack is run, and only one that
stood the proof is put in use.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from ascend_doctor import __version__
from ascend_doctor.provision import lock as locks
from ascend_doctor.provision.checkouts import Checkouts
from ascend_doctor.provision.environment import VirtualEnvironment
from ascend_doctor.provision.helpers import compile_helpers
from ascend_doctor.provision.lock import Checkout, Lock, Proof, Wheel
from ascend_doctor.provision.plan import Plan
from ascend_doctor.provision.steps import Outcome, Site, StepWatch

Prove = Callable[[Path, Lock], Proof]


def apply(site: Site, plan: Plan, prove: Prove, *, level: int) -> Lock:
    """Build, write the lock, prove, and put the stack in use; the prefix is held by the caller.

    ``prove`` is called where the stack changed, or was not proven at ``level`` before. A stack
    that fails it is not put in use: the lock that comes back has the proof that failed.
    Raises DataError for what the user has to decide, CommandError and OSError for what failed.
    """
    folder = site.prefix.stack(plan.id)
    noted = _Noted(site.watch)
    lock = _build(replace(site, watch=noted), plan, folder)
    if noted.changed or not _stands(lock.proof, level):
        with site.step("proof") as done:
            lock = msgspec.structs.replace(lock, proof=prove(folder, lock))
            locks.write(folder / locks.FILE, lock)
            done("failed" if lock.failed else "built", lock.told_proof)
    if not lock.failed and site.prefix.current() != folder:
        with site.step("stack in use") as done:
            site.prefix.switch(plan.id)
            done("built", str(folder))
    return lock


def _stands(proof: Proof | None, level: int) -> bool:
    return proof is not None and not proof.failed and proof.level >= level


class _Noted:
    """Passes the steps on, and knows whether one of them changed the stack."""

    def __init__(self, watch: StepWatch) -> None:
        self._watch = watch
        self.changed = False

    def step(self, title: str, folders: Sequence[Path]) -> contextlib.AbstractContextManager[None]:
        return self._watch.step(title, folders)

    def ended(self, outcome: Outcome) -> None:
        self.changed |= outcome.word in ("built", "repaired")
        self._watch.ended(outcome)


def _build(site: Site, plan: Plan, folder: Path) -> Lock:
    before = _finished_lock(folder)
    pinned_before = _pin_as_before(plan.checkouts, before)
    checkouts = Checkouts(site, folder, finished=before is not None)
    plan = plan.with_checkouts(checkouts.build(pinned_before))
    environment = VirtualEnvironment(site, plan, folder)
    wheels = environment.build(before)
    compile_helpers(site, folder, environment.pip.python)
    if before is not None:
        return before
    with site.step("lock") as done:
        dated = "" if environment.undated.exists() else plan.as_of
        trees = checkouts.trees(plan.checkouts)
        lock = _lock(replace(plan, as_of=dated), trees, wheels)
        locks.write(folder / locks.FILE, lock)
        done("built", str(folder / locks.FILE))
    return lock


def _finished_lock(folder: Path) -> Lock | None:
    """The lock of a stack that was built to its end."""
    return locks.read(folder) if (folder / locks.FILE).is_file() else None


def _pin_as_before(checkouts: Sequence[Checkout], before: Lock | None) -> tuple[Checkout, ...]:
    """What names no commit yet keeps the one that it was pinned to."""
    commits = {checkout.name: checkout.commit for checkout in before.checkouts} if before else {}
    return tuple(
        msgspec.structs.replace(checkout, commit=checkout.commit or commits.get(checkout.name, ""))
        for checkout in checkouts
    )


def _lock(plan: Plan, checkouts: tuple[Checkout, ...], wheels: tuple[Wheel, ...]) -> Lock:
    return Lock(
        tool_version=__version__,
        id=plan.id,
        created_at=dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds"),
        wish=plan.wish,
        python=plan.base.facts,
        checkouts=checkouts,
        wheels=wheels,
        settings=plan.settings,
        pythonpath=plan.pythonpath,
        rows=dict(plan.rows),
        stacks=plan.stacks,
        system=dict(plan.system),
        venv=plan.venv,
        as_of=plan.as_of,
        kept=dict(plan.kept),
    )
