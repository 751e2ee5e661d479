"""Builds what a plan says, step by step; what is there already and right is left as it is.

Every step looks first and acts on what it finds, so that a setup that was interrupted anywhere
goes on, and a damaged stack is repaired. A checkout appears whole by a rename; an environment
counts once its mark is written; the lock is written last, and only then the stack is put in use.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ascend_doctor import __version__
from ascend_doctor.provision import lock as locks
from ascend_doctor.provision.checkouts import Checkouts
from ascend_doctor.provision.environment import Environment
from ascend_doctor.provision.lock import Checkout, Lock, Wheel
from ascend_doctor.provision.plan import Plan
from ascend_doctor.provision.steps import Site


def apply(site: Site, plan: Plan) -> Lock:
    """Build, prove, write the lock and put the stack in use; the prefix is held by the caller.

    Raises DataError for what the user has to decide, CommandError and OSError for what failed.
    """
    folder = site.prefix.stack(plan.id)
    before = _finished(folder)
    wanted = _pinned_before(plan.checkouts, before)
    checkouts = Checkouts(site, folder, finished=before is not None)
    plan = plan.with_checkouts(checkouts.build(wanted))
    wheels = Environment(site, plan, folder).build(before)
    lock = before
    if lock is None:
        with site.step("lock") as done:
            lock = _lock(plan, checkouts.trees(plan.checkouts), wheels)
            locks.write(folder / locks.FILE, lock)
            done("built", str(folder / locks.FILE))
    if site.prefix.current() != folder:
        with site.step("stack in use") as done:
            site.prefix.switch(plan.id)
            done("built", str(folder))
    return lock


def _finished(folder: Path) -> Lock | None:
    """The lock of a stack that was built to its end."""
    return locks.read(folder) if (folder / locks.FILE).is_file() else None


def _pinned_before(wanted: Sequence[Checkout], before: Lock | None) -> tuple[Checkout, ...]:
    """What names no commit yet keeps the one that it was pinned to."""
    commits = {one.name: one.commit for one in before.checkouts} if before else {}
    return tuple(
        msgspec.structs.replace(one, commit=one.commit or commits.get(one.name, ""))
        for one in wanted
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
    )
