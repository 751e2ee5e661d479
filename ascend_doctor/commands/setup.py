"""``ascend-doctor setup``: resolve, plan, apply, prove."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ascend_doctor.commands.catalog import catalog, matrix_option
from ascend_doctor.errors import DataError
from ascend_doctor.exits import EXIT_FINDINGS, EXIT_OK
from ascend_doctor.render.plain import one_line

if TYPE_CHECKING:
    from ascend_doctor.data import Catalog
    from ascend_doctor.facts import Snapshot
    from ascend_doctor.provision.lock import Lock, Prefix
    from ascend_doctor.provision.plan import Base, Plan
    from ascend_doctor.provision.sources import Mirrors


_LITTLE = 64  # MiB


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options as they were given."""

    megatron: str | None
    framework: str | None
    prefix: str | None
    venv: str | None
    active: bool
    python: str | None
    locked: bool
    lock: str | None
    offline: bool
    bundle_from: str | None
    bundle: str | None
    mirrors: tuple[str, ...]
    overlays: tuple[str, ...]
    dry_run: bool
    script: bool
    yes: bool
    quiet: bool


@click.command("setup")
@click.option("--megatron", metavar="X", help="0.15.3, 0.15, or a ref of Megatron-LM.")
@click.option("--framework", metavar="F", help="ms-swift, twinkle, verl, mindspeed-llm; or F==V.")
@click.option(
    "--prefix",
    metavar="DIR",
    help="Where stacks are built.  [default: ASCEND_DOCTOR_PREFIX, or the user's data folder]",
)
@click.option("--venv", metavar="DIR", help="Environment to install into.  [default: the stack's]")
@click.option("--active", is_flag=True, help="Install into the active environment.")
@click.option(
    "--python", metavar="PATH", help="Interpreter that makes the environment.  [default: active]"
)
@click.option("--dry-run", is_flag=True, help="Print the plan; ask no server and write nothing.")
@click.option("--script", is_flag=True, help="Print the plan as a shell script.")
@click.option("--locked", is_flag=True, help="Build what the lock says, or fail.")
@click.option(
    "--lock",
    metavar="FILE",
    help="The lock of --locked.  [default: ./ascend-doctor.lock, else the one in use]",
)
@click.option("--offline", is_flag=True, help="Use nothing but the bundle of --from.")
@click.option("--from", "bundle_from", metavar="DIR", help="Bundle that --bundle wrote.")
@click.option("--bundle", metavar="DIR", help="Write the stack as a bundle to carry elsewhere.")
@click.option(
    "--git-mirror",
    "mirrors",
    multiple=True,
    metavar="[NAME=]URL_OR_DIR",
    help="Fetch from here: one component, or a place that has several; repeatable.",
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask before building.")
@click.option("-q", "--quiet", is_flag=True, help="Say only what failed, and the verdict.")
@matrix_option
def command(**options: Any) -> int:
    """Build a stack for a Megatron-LM: checkouts, environment and lock; then judge it.

    What is there already and right is left as it is, so that an interrupted setup goes on. The
    driver, the firmware and CANN are never installed: setup says which ones to get.

    \b
    Exit codes: those of check -l 0 on what was built; 1 also where a step failed or no stack
    fits; 2 bad usage or bad data.
    """  # noqa: D301 - \b is click's mark for a block that is not to be rewrapped
    return _conduct(Request(**options))


def _conduct(request: Request) -> int:
    _check_usage(request)
    from ascend_doctor.provision.lock import Prefix  # noqa: PLC0415 - after --help and usage
    from ascend_doctor.provision.sources import Mirrors  # noqa: PLC0415

    rows = catalog(request.overlays)
    mirrors = Mirrors(request.mirrors, rows.component_ids)
    prefix = Prefix.of(request.prefix)
    plan = _plan(request, rows, prefix)
    if plan is None:
        return EXIT_FINDINGS
    if request.script:
        from ascend_doctor.provision.script import script  # noqa: PLC0415 - only here

        urls = {one.name: mirrors.source(one.name, one.url).url for one in plan.checkouts}
        click.echo(script(plan, prefix.stack(plan.id), urls), nl=False)
        return EXIT_OK
    if request.dry_run:
        _say(*_described(plan, prefix), err=False)
        return EXIT_OK
    if not request.quiet:
        _say(*_described(plan, prefix), err=True)
    if not _is_finished(plan, prefix) and not _agreed(request):
        return EXIT_FINDINGS
    return _build(request, rows, mirrors, prefix, plan)


def _check_usage(request: Request) -> None:
    if request.offline != bool(request.bundle_from):
        raise click.UsageError("--offline and --from DIR go together")
    if not (request.megatron or request.locked or request.bundle_from):
        raise click.UsageError("--megatron says what to build; or --locked, or --offline --from")
    if request.venv and request.active:
        raise click.UsageError("--venv and --active exclude each other")
    if request.lock and not request.locked:
        raise click.UsageError("--lock names the lock of --locked")


def _plan(request: Request, rows: Catalog, prefix: Prefix) -> Plan | None:
    """From the bundle, the lock, or the matrix; None where no stack fits, which has been said."""
    from ascend_doctor.collect.snapshot import take  # noqa: PLC0415 - after usage
    from ascend_doctor.provision.plan import from_lock  # noqa: PLC0415
    from ascend_doctor.system import LiveMachine  # noqa: PLC0415

    named = request.python
    if request.venv and os.path.exists(f"{request.venv}/bin/python"):
        named = f"{os.path.abspath(request.venv)}/bin/python"
    facts = take(LiveMachine(), rows, python=named)
    base = _base(facts)
    venv = _place(request, facts)
    lock = _given_lock(request, prefix)
    if lock is None:
        from ascend_doctor.commands.matrix import machine_of  # noqa: PLC0415 - resolvelib is slow

        return _solved(request, rows, machine_of(facts, rows), base, venv)
    wish = {"megatron": request.megatron, "framework": request.framework}
    for name, value in wish.items():
        if value and lock.wish.get(name) != value:
            raise DataError(f"the lock is of {name} {lock.wish.get(name, 'none')}, not {value}")
    return from_lock(lock, base, venv)


def _base(facts: Snapshot) -> Base:
    from ascend_doctor.provision.lock import BasePython  # noqa: PLC0415 - as above
    from ascend_doctor.provision.plan import Base  # noqa: PLC0415

    if facts.python is None:
        raise DataError("there is no Python to make an environment of; name one with --python")
    major, minor = facts.python.version.split(".")[:2]
    arch = facts.python.machine or (facts.host.arch if facts.host else "")
    told = BasePython(version=facts.python.version, tag=f"cp{major}{minor}", arch=arch)
    return Base(executable=facts.python.executable, facts=told)


def _place(request: Request, facts: Snapshot) -> str:
    """The environment as the lock has it: "venv" in the stack, or a full path."""
    if request.venv:
        return os.path.abspath(request.venv)
    if not request.active:
        return "venv"
    python = facts.python
    if python is None or python.prefix == python.base_prefix:
        raise DataError("--active: no virtual environment is active")
    return python.prefix


def _given_lock(request: Request, prefix: Prefix) -> Lock | None:
    from ascend_doctor.provision import bundle  # noqa: PLC0415 - as above
    from ascend_doctor.provision import lock as locks  # noqa: PLC0415

    if request.bundle_from:
        return bundle.read(Path(request.bundle_from))
    if not request.locked:
        return None
    if request.lock:
        return locks.read(Path(request.lock))
    here, current = Path(locks.FILE), prefix.current()
    return locks.read(here if here.is_file() or current is None else current)


def _solved(
    request: Request, rows: Catalog, machine: dict[str, str], base: Base, venv: str
) -> Plan | None:
    from ascend_doctor.checks.cann_python import LISTED, STOPS  # noqa: PLC0415 - not for --help
    from ascend_doctor.commands.matrix import refusal_lines  # noqa: PLC0415 - resolvelib is slow
    from ascend_doctor.provision.plan import Wanted, planned  # noqa: PLC0415
    from ascend_doctor.provision.refusal import refusal  # noqa: PLC0415
    from ascend_doctor.provision.solve import Question, solve  # noqa: PLC0415
    from ascend_doctor.provision.wishes import wishes  # noqa: PLC0415

    wish = {"megatron": request.megatron or ""}
    if request.framework:
        wish["framework"] = request.framework
    wanted = wishes(rows, wish["megatron"], request.framework)
    question = Question(wishes=wanted, machine=machine)
    solution = solve(rows, question)
    if solution is None:
        _say(*refusal_lines(refusal(rows, question), question), err=True)
        return None
    return planned(
        rows,
        Wanted(
            wish=wish,
            machine=machine,
            solution=solution,
            base=base,
            venv=venv,
            undeclared=(*STOPS.values(), *LISTED.values()),
        ),
    )


def _described(plan: Plan, prefix: Prefix) -> Iterator[str]:
    """The plan in words."""
    yield f"stack {plan.id} in {prefix.root}"
    for one in plan.checkouts:
        where = one.commit or "the commit that it names then"
        yield f"  {one.name:<22} {one.ref}  {where}"
    yield f"  {'python':<22} {plan.base.facts.version}  {plan.base.executable}"
    if plan.wheels is None:
        yield from (f"  {'pip':<22} {one}" for one in plan.requirements)
        yield from (f"  {'constraint':<22} {one}" for one in plan.constraints)
    else:
        yield f"  {'wheels':<22} {len(plan.wheels)}, by their hashes"
    for setting in plan.settings:
        yield f"  {'variable':<22} {setting.name}={setting.value}"
    yield from (f"note: {one}" for one in plan.doubts)
    yield from (f"to get: {one}" for one in plan.missing)


def _is_finished(plan: Plan, prefix: Prefix) -> bool:
    from ascend_doctor.provision.lock import FILE  # noqa: PLC0415 - as above

    return (prefix.stack(plan.id) / FILE).is_file()


def _agreed(request: Request) -> bool:
    if request.yes:
        return True
    if not sys.stdin.isatty():
        raise click.UsageError("there is no terminal to ask on; --yes builds without asking")
    return click.confirm("Build this?", default=True, err=True)


def _build(request: Request, rows: Catalog, mirrors: Mirrors, prefix: Prefix, plan: Plan) -> int:
    from ascend_doctor.commands.setup_display import Display  # noqa: PLC0415 - as above
    from ascend_doctor.provision import bundle  # noqa: PLC0415
    from ascend_doctor.provision.apply import apply  # noqa: PLC0415
    from ascend_doctor.provision.git import Git  # noqa: PLC0415
    from ascend_doctor.provision.running import (  # noqa: PLC0415
        CommandError,
        Runner,
        exclusively,
    )
    from ascend_doctor.provision.steps import Site  # noqa: PLC0415

    carried = Path(request.bundle_from) if request.bundle_from else None
    site = Site(
        prefix=prefix,
        runner=Runner(),
        catalog=rows,
        source=lambda one: (
            bundle.source(carried, one) if carried else mirrors.source(one.name, one.url)
        ),
        watch=Display(quiet=request.quiet),
        asks=plan.wheels is None,
        wheelhouse=carried and carried / "wheels",
    )
    try:
        with exclusively(prefix.exclusion) as held:
            site = replace(site, runner=replace(site.runner, held=held))
            lock = apply(site, plan)
            if request.bundle:
                with site.step("bundle", Path(request.bundle)) as done:
                    bundle.write(Path(request.bundle), prefix, lock, Git(runner=site.runner))
                    done("built", request.bundle)
    except (CommandError, OSError) as error:
        hint = "what is done is kept: run the same command again to go on"
        click.echo(one_line(f"ascend-doctor: {error}"), err=True)
        free = shutil.disk_usage(prefix.root).free >> 20
        if free < _LITTLE:  # what venv and pip ran into they do not always say
            click.echo(one_line(f"{free} MiB are left on the disk of {prefix.root}"), err=True)
        click.echo(f"ascend-doctor: setup failed; {hint}", err=True)
        return EXIT_FINDINGS
    return _prove(request, prefix.stack(plan.id), lock)


def _prove(request: Request, stack: Path, lock: Lock) -> int:
    """Collect and judge what was built, as its own shell would see it."""
    from ascend_doctor.commands.check import Wish, conduct  # noqa: PLC0415 - as above
    from ascend_doctor.commands.examination import Examination  # noqa: PLC0415
    from ascend_doctor.commands.output import Output  # noqa: PLC0415
    from ascend_doctor.findings import Level  # noqa: PLC0415
    from ascend_doctor.provision.lock import FILE, environment_of  # noqa: PLC0415
    from ascend_doctor.system import LiveMachine  # noqa: PLC0415

    place = environment_of(stack, lock)
    examination = Examination(
        LiveMachine(_shell(os.environ, stack, lock, place)),
        python=str(place / "bin" / "python"),
        overlays=request.overlays,
        lock=str(stack / FILE),
    )
    output = Output(
        targets=(("text", None),),
        fail_on=Level.ERROR,
        color=sys.stdout.isatty() and not os.environ.get("NO_COLOR"),
        redact=False,
        verbose=False,
        quiet=request.quiet,
    )
    wish = Wish(level=0, device="auto", nproc=None, timeout=300)
    return conduct(examination, output, wish, only=(), skip=())


def _shell(env: Mapping[str, str], stack: Path, lock: Lock, place: Path) -> dict[str, str]:
    """The environment variables with the stack's: what ``env`` would set, CANN's aside."""
    paths = [str(stack / one) for one in lock.pythonpath]
    settings = {
        one.name: str(stack / one.value) if one.path else one.value for one in lock.settings
    }
    return {
        **{name: value for name, value in env.items() if name != "PYTHONHOME"},
        "PATH": f"{place}/bin:{env.get('PATH', os.defpath)}",
        "VIRTUAL_ENV": str(place),
        "PYTHONPATH": ":".join(paths),
        **settings,
    }


def _say(*lines: str, err: bool) -> None:
    for line in lines:
        click.echo(one_line(line), err=err)
