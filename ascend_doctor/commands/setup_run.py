"""From the options of ``setup`` through the door of provision to an exit code."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ascend_doctor.checks.python.packages import LISTED, STOPS
from ascend_doctor.collect.snapshot import take
from ascend_doctor.commands.accepted_checks import flags_to_accept, split_accepted
from ascend_doctor.commands.env import environment
from ascend_doctor.commands.options.matrix import catalog
from ascend_doctor.commands.setup_display import SetupDisplay, write_lines, write_plan
from ascend_doctor.commands.setup_proof import Prover
from ascend_doctor.exits import EXIT_FINDINGS, EXIT_OK
from ascend_doctor.facts import Snapshot
from ascend_doctor.machine.live import LiveMachine
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.provision.accepted import conflicts_to_accept
from ascend_doctor.provision.build import build
from ascend_doctor.provision.conflict import NoStackError
from ascend_doctor.provision.lock import Lock, Prefix
from ascend_doctor.provision.options import SetupOptions
from ascend_doctor.provision.plan import arch_of, make_plan
from ascend_doctor.provision.running import CommandError
from ascend_doctor.provision.solve import SolveQuery
from ascend_doctor.provision.sources import Mirrors
from ascend_doctor.provision.target import Target


def run_setup(
    *,
    dry_run: bool,
    offline: bool,  # noqa: ARG001 - what --from says as well
    **request: Any,
) -> int:
    """Plan, build and prove, or only show the plan; ``prepare`` takes ``request``."""
    options, prover, display = prepare(**request)
    try:
        if dry_run:
            write_plan(make_plan(options), options.prefix, err=False)
            return EXIT_OK
        lock = build(options)
    except NoStackError as none:
        from ascend_doctor.commands.matrix_solve import refusal_lines

        write_lines(
            (*refusal_lines(none.refusal, none.query), *accept_lines(options.catalog, none.query))
        )
        return EXIT_FINDINGS
    except (CommandError, OSError) as error:
        display.show_failure(error)
        return EXIT_FINDINGS
    if options.target:
        display.show_carried(options, lock)
        return EXIT_OK
    if lock.failed:
        display.show_unproven(lock, flags_to_accept(lock))
        return EXIT_FINDINGS
    return prover.exit_code


def prepare(
    *,
    overlays: tuple[str, ...],
    mirrors: tuple[str, ...],
    prefix: str | None,
    python: str | None,
    proof: str,
    yes: bool,
    quiet: bool,
    on: tuple[str, ...] = (),
    accept: tuple[str, ...] = (),
    **request: Any,
) -> tuple[SetupOptions, Prover, SetupDisplay]:
    """Look once; ``request`` are fields of SetupOptions. Raises UsageError for an unknown check."""
    conflicts, checks = split_accepted(accept)
    rows = catalog(overlays)
    sources = Mirrors(mirrors, rows.component_ids)
    facts = take(LiveMachine(), rows, python=_interpreter(python, request.get("venv")))
    prover = Prover.of(proof, facts, overlays=overlays, quiet=quiet)
    target = _target(rows, facts, on)
    wheels = ("wheels", "lock") if target else ("environment", "lock", "proof", "stack in use")
    last = (*wheels, *(("bundle",) if request.get("bundle") else ()))
    display = SetupDisplay(Prefix.of(prefix), quiet=quiet, yes=yes, last=last)
    options = SetupOptions(
        **request,
        accept=conflicts,
        accepted_checks=checks,
        prefix=Prefix.of(prefix),
        mirrors=sources,
        catalog=rows,
        facts=facts,
        target=target,
        undeclared=(*STOPS.values(), *LISTED.values()),
        level=prover.level,
        environment=source_stack,
        prove=prover,
        steps=display,
    )
    return options, prover, display


def _target(rows: Catalog, facts: Snapshot, on: tuple[str, ...]) -> Target | None:
    """The machine of --on; Python and architecture default to this one's."""
    if not on:
        return None
    from ascend_doctor.commands.matrix_solve import facts_on, lines_on

    here = {"arch": arch_of(facts)}
    if facts.python:
        here["python"] = ".".join(facts.python.version.split(".")[:2])
    there = {**here, **facts_on(rows, on)}
    ranges = lines_on(rows, on)
    return Target(facts=there, python=there["python"], arch=there["arch"], ranges=ranges)


def accept_lines(rows: Catalog, query: SolveQuery) -> Iterator[str]:
    """What to type to build in spite of documented conflicts, if possible."""
    flags = [f"--accept {who}:{what}" for who, what in conflicts_to_accept(rows, query)]
    if flags:
        yield f"to build it all the same, on record in the lock: {' '.join(flags)}"


def _interpreter(python: str | None, venv: str | None) -> str | None:
    if venv and os.path.exists(f"{venv}/bin/python"):
        return f"{os.path.abspath(venv)}/bin/python"
    return python


def source_stack(folder: Path, lock: Lock) -> Mapping[str, str]:
    return environment(LiveMachine(), folder, lock)
