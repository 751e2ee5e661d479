"""From the options of ``setup`` to a plan: by the matrix and the machine, or by a lock."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ascend_doctor.checks.cann.cann_python import LISTED, STOPS
from ascend_doctor.collect.snapshot import take
from ascend_doctor.commands.matrix import machine_of, refusal_lines
from ascend_doctor.errors import DataError
from ascend_doctor.machine.files import not_trusted
from ascend_doctor.machine.live import LiveMachine
from ascend_doctor.matrix.versions import normalised
from ascend_doctor.provision import bundle
from ascend_doctor.provision import lock as locks
from ascend_doctor.provision.conflict import refusal
from ascend_doctor.provision.lock import BasePython, Lock, Prefix
from ascend_doctor.provision.plan import Base, Plan, PlanOptions, from_lock, make_plan
from ascend_doctor.provision.request_ranges import split_additions, wishes
from ascend_doctor.provision.signatures import Signers
from ascend_doctor.provision.solve import SolveQuery, solve
from ascend_doctor.render.plain import one_line

if TYPE_CHECKING:
    from ascend_doctor.commands.setup import SetupOptions
    from ascend_doctor.facts import Snapshot
    from ascend_doctor.matrix.catalog import Catalog


@dataclass(frozen=True, kw_only=True)
class Planner:
    """Makes the plan for the machine that ``facts`` describe."""

    options: SetupOptions
    rows: Catalog
    prefix: Prefix
    facts: Snapshot

    def plan(self) -> Plan | None:
        """From the bundle, the lock, or the matrix; None where no stack fits, which it says."""
        lock = self._lock()
        return self._solved() if lock is None else self._locked(lock)

    def _locked(self, lock: Lock) -> Plan:
        for name, value in self._wish().items():
            if lock.wish.get(name) != value:
                raise DataError(f"the lock is of {name} {lock.wish.get(name, 'none')}, not {value}")
        there = self.prefix.stack(lock.id) / locks.FILE
        same = locks.read(there) if there.is_file() else None
        return from_lock(lock, self._base(), self._environment(), there=same)

    def _lock(self) -> Lock | None:
        """The lock of the bundle, the one named, or the one here or in use."""
        signers = Signers.of(self.options.signed_by) if self.options.signed_by else None
        if self.options.bundle_from:
            return bundle.read(Path(self.options.bundle_from), signers=signers)
        if not self.options.locked:
            return None
        if self.options.lock:
            return locks.read(Path(self.options.lock), signers=signers)
        here, current = Path(locks.FILE), self.prefix.current()
        if here.is_file() and (why := not_trusted(str(here))):
            raise DataError(f"./{here}: {why}; name it with --lock to build what it says")
        return locks.read(here if here.is_file() or current is None else current, signers=signers)

    def _solved(self) -> Plan | None:
        options, rows = self.options, self.rows
        machine = machine_of(self.facts, rows)
        kept_packages = self._kept()
        machine |= {
            name: version for name, version in kept_packages.items() if name in rows.component_ids
        }
        ranges = wishes(rows, options.megatron or "", options.framework, options.additions)
        question = SolveQuery(wishes=ranges, machine=machine)
        solution = solve(rows, question)
        if solution is None:
            for line in refusal_lines(refusal(rows, question), question):
                click.echo(one_line(line), err=True)
            return None
        return make_plan(
            rows,
            PlanOptions(
                wish=self._wish(),
                machine=machine,
                solution=solution,
                base=self._base(),
                venv=self._environment(),
                undeclared=(*STOPS.values(), *LISTED.values()),
                added=split_additions(rows, options.additions),
                as_of=options.as_of,
                kept=kept_packages,
            ),
        )

    def _wish(self) -> dict[str, str]:
        """What was asked for, as the lock records it."""
        options = self.options
        wish = {
            "megatron": options.megatron,
            "framework": options.framework,
            "with": " ".join(options.additions),
            "as-of": options.as_of,
        }
        return {name: value for name, value in wish.items() if value}

    def _base(self) -> Base:
        python, host = self.facts.python, self.facts.host
        if python is None:
            raise DataError("there is no Python to make an environment of; name one with --python")
        major, minor = python.version.split(".")[:2]
        arch = python.machine or (host.arch if host else "")
        base_python = BasePython(version=python.version, tag=f"cp{major}{minor}", arch=arch)
        return Base(executable=python.executable, facts=base_python)

    def _environment(self) -> str:
        """The environment as the lock has it: "venv" in the stack, or a full path."""
        if self.options.venv:
            return os.path.abspath(self.options.venv)
        if not self.options.active:
            return "venv"
        python = self.facts.python
        if python is None or python.prefix == python.base_prefix:
            raise DataError("--active: no virtual environment is active")
        return python.prefix

    def _kept(self) -> dict[str, str]:
        """Versions of the packages that are to stay as they are."""
        names = [normalised(name) for name in self.options.keep]
        python = self.facts.python
        if not names or python is None:
            return {}
        inside = self.options.venv or self.options.active
        if not inside and python.prefix != python.base_prefix:
            raise DataError(
                f"--keep: {python.executable} is a virtual environment, whose packages another "
                "one cannot see; add --active, or name the interpreter below it with --python"
            )
        there = {name: python.find(name) for name in names}
        if lacking := [name for name, distribution in there.items() if distribution is None]:
            raise DataError(f"--keep: {python.executable} does not have {', '.join(lacking)}")
        return {name: distribution.version for name, distribution in there.items() if distribution}


def facts_of(options: SetupOptions, rows: Catalog) -> Snapshot:
    """The machine, with the interpreter that makes the environment."""
    named = options.python
    if options.venv and os.path.exists(f"{options.venv}/bin/python"):
        named = f"{os.path.abspath(options.venv)}/bin/python"
    return take(LiveMachine(), rows, python=named)
