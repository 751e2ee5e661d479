"""``ascend-doctor setup``: resolve, plan, apply, prove."""

from __future__ import annotations

import contextlib
import datetime as dt
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ascend_doctor.commands.options.matrix import catalog, matrix_option
from ascend_doctor.exits import EXIT_FINDINGS, EXIT_OK
from ascend_doctor.render.plain import one_line

if TYPE_CHECKING:
    from ascend_doctor.commands.setup_proof import Prover
    from ascend_doctor.matrix.catalog import Catalog
    from ascend_doctor.provision.lock import Lock, Prefix
    from ascend_doctor.provision.plan import Plan
    from ascend_doctor.provision.sources import Mirrors
    from ascend_doctor.provision.steps import Site


_LITTLE = 64  # MiB
LEVELS = ("0", "1", "2", "3", "4", "rehearse")


@dataclass(frozen=True, kw_only=True)
class SetupOptions:
    """The options as they were given. ``additions`` are those of --with."""

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
    signed_by: str | None
    additions: tuple[str, ...]
    keep: tuple[str, ...]
    as_of: str | None
    proof: str
    mirrors: tuple[str, ...]
    overlays: tuple[str, ...]
    dry_run: bool
    yes: bool
    quiet: bool


def _split_list(_: click.Context, __: click.Parameter, value: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in value.split(",") if name.strip()) if value else ()


def _day(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    try:
        return dt.date.fromisoformat(value).isoformat() if value else value
    except ValueError as error:
        raise click.BadParameter(f"{value}: give a day as 2026-06-30") from error


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
    "--require-signed",
    "signed_by",
    metavar="KEY",
    help="Take a lock or a bundle only where a public key of this file has signed it.",
)
@click.option(
    "--with",
    "additions",
    multiple=True,
    metavar="NAME[==VERSION]",
    help="Have this as well, or in this version; repeatable, and recorded in the lock.",
)
@click.option(
    "--keep",
    metavar="NAME,...",
    callback=_split_list,
    help="Leave these packages of the interpreter alone, as torch,torch_npu of a vendor's image.",
)
@click.option(
    "--as-of",
    metavar="DATE",
    callback=_day,
    help="Take nothing younger from the indexes.  [default: the day of the stack's youngest row]",
)
@click.option(
    "--prove",
    "proof",
    type=click.Choice(LEVELS),
    default="1",
    show_default=True,
    help="Check level that has to pass before the stack is put in use; simulated where there is "
    "no NPU. rehearse: level 3 on a simulated NPU.",
)
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
    """Build a stack for a Megatron-LM: checkouts, environment and lock; prove it, put it in use.

    What is there already and right is left as it is, so that an interrupted setup goes on. The
    driver, the firmware and CANN are never installed: setup says which ones to get.

    \b
    Exit codes: those of the check that proves the stack; 1 also where it was not put in use, a
    step failed or no stack fits; 2 bad usage or bad data.
    """  # noqa: D301 - \b is click's mark for a block that is not to be rewrapped
    return _conduct(SetupOptions(**options))


def _conduct(options: SetupOptions) -> int:
    _check_usage(options)
    from ascend_doctor.commands.setup_plan import Planner, facts_of  # noqa: PLC0415 - after usage
    from ascend_doctor.provision.lock import Prefix  # noqa: PLC0415
    from ascend_doctor.provision.sources import Mirrors  # noqa: PLC0415

    rows = catalog(options.overlays)
    mirrors = Mirrors(options.mirrors, rows.component_ids)
    prefix = Prefix.of(options.prefix)
    facts = facts_of(options, rows)
    plan = Planner(options=options, rows=rows, prefix=prefix, facts=facts).plan()
    if plan is None:
        return EXIT_FINDINGS
    if options.dry_run:
        _say(*_describe(plan, prefix), err=False)
        return EXIT_OK
    if not options.quiet:
        _say(*_describe(plan, prefix), err=True)
    if not _is_finished(plan, prefix) and not _ask_consent(options):
        return EXIT_FINDINGS
    from ascend_doctor.commands.setup_proof import Prover  # noqa: PLC0415 - after usage

    prover = Prover.of(options.proof, facts, overlays=options.overlays, quiet=options.quiet)
    return _build(options, _site(options, rows, mirrors, prefix, plan), plan, prover)


def _check_usage(options: SetupOptions) -> None:
    if options.offline != bool(options.bundle_from):
        raise click.UsageError("--offline and --from DIR go together")
    if not (options.megatron or options.locked or options.bundle_from):
        raise click.UsageError("--megatron says what to build; or --locked, or --offline --from")
    if options.venv and options.active:
        raise click.UsageError("--venv and --active exclude each other")
    if options.lock and not options.locked:
        raise click.UsageError("--lock names the lock of --locked")
    if options.signed_by and not (options.locked or options.bundle_from):
        raise click.UsageError("--require-signed goes with --locked or --from")


def _describe(plan: Plan, prefix: Prefix) -> Iterator[str]:
    """The plan in words."""
    yield f"stack {plan.id} in {prefix.root}"
    for checkout in plan.checkouts:
        where = checkout.commit or "the commit that it names then"
        yield f"  {checkout.name:<22} {checkout.ref}  {where}"
    yield f"  {'python':<22} {plan.base.facts.version}  {plan.base.executable}"
    if plan.wheels is None:
        yield from (f"  {'pip':<22} {one}" for one in plan.requirements)
        yield from (f"  {'constraint':<22} {constraint}" for constraint in plan.constraints)
    else:
        yield f"  {'wheels':<22} {len(plan.wheels)}, by their hashes"
    if plan.as_of and plan.wheels is None:
        yield f"  {'as of':<22} {plan.as_of}: nothing younger is taken from an index"
    for name, version in plan.kept.items():
        yield f"  {'kept':<22} {name} {version}"
    for requirement, urls in plan.indexes.items():
        yield f"  {'index':<22} {requirement}: {', '.join(urls)}, where yours do not have it"
    for setting in plan.settings:
        yield f"  {'variable':<22} {setting.name}={setting.value}"
    yield from (f"note: {doubt}" for doubt in plan.doubts)
    yield from (f"to get: {text}" for text in plan.missing)


def _is_finished(plan: Plan, prefix: Prefix) -> bool:
    from ascend_doctor.provision.lock import FILE  # noqa: PLC0415 - as above

    return (prefix.stack(plan.id) / FILE).is_file()


def _ask_consent(options: SetupOptions) -> bool:
    if options.yes:
        return True
    if not sys.stdin.isatty():
        raise click.UsageError("there is no terminal to ask on; --yes builds without asking")
    return click.confirm("Build this?", default=True, err=True)


def _site(
    options: SetupOptions, rows: Catalog, mirrors: Mirrors, prefix: Prefix, plan: Plan
) -> Site:
    from ascend_doctor.commands.setup_display import SetupDisplay  # noqa: PLC0415 - as above
    from ascend_doctor.provision import bundle  # noqa: PLC0415
    from ascend_doctor.provision.running import Runner  # noqa: PLC0415
    from ascend_doctor.provision.steps import Site  # noqa: PLC0415

    carried = Path(options.bundle_from) if options.bundle_from else None
    return Site(
        prefix=prefix,
        runner=Runner(),
        catalog=rows,
        source=lambda checkout: (
            bundle.source(carried, checkout)
            if carried
            else mirrors.source(checkout.name, checkout.url)
        ),
        watch=SetupDisplay(quiet=options.quiet),
        asks=plan.wheels is None,
        wheelhouse=carried and carried / "wheels",
    )


def _build(options: SetupOptions, site: Site, plan: Plan, prover: Prover) -> int:
    from ascend_doctor.provision import bundle  # noqa: PLC0415 - as above
    from ascend_doctor.provision.build import apply  # noqa: PLC0415
    from ascend_doctor.provision.git import Git  # noqa: PLC0415
    from ascend_doctor.provision.running import CommandError, exclusively  # noqa: PLC0415

    try:
        with exclusively(site.prefix.exclusion) as held:
            site = replace(site, runner=replace(site.runner, held=held))
            lock = apply(site, plan, prover, level=prover.level)
            if options.bundle and not lock.failed:
                with site.step("bundle", Path(options.bundle)) as done:
                    bundle.write(Path(options.bundle), site.prefix, lock, Git(runner=site.runner))
                    done("built", options.bundle)
    except (CommandError, OSError) as error:
        _tell_failure(site.prefix, error)
        return EXIT_FINDINGS
    if lock.failed:
        _say(*_not_in_use(site.prefix, lock), err=True)
        return EXIT_FINDINGS
    return prover.exit_code


def _tell_failure(prefix: Prefix, error: Exception) -> None:
    hint = "what is done is kept: run the same command again to go on"
    click.echo(one_line(f"ascend-doctor: {error}"), err=True)
    with contextlib.suppress(OSError):
        free = shutil.disk_usage(prefix.root).free >> 20
        if free < _LITTLE:  # what venv and pip ran into they do not always say
            click.echo(one_line(f"{free} MiB are left on the disk of {prefix.root}"), err=True)
    click.echo(f"ascend-doctor: setup failed; {hint}", err=True)


def _not_in_use(prefix: Prefix, lock: Lock) -> Iterator[str]:
    """What became of a stack that did not stand its proof."""
    stack, current = prefix.stack(lock.id), prefix.current()
    yield f"ascend-doctor: {stack} was built and does not work: {lock.told_proof}"
    if current and current != stack:
        yield f"ascend-doctor: the stack in use is still {current}"
    else:
        yield "ascend-doctor: no stack was put in use"
    yield "ascend-doctor: the same command proves it again; --prove 0 puts it in use as it is"


def _say(*lines: str, err: bool) -> None:
    for line in lines:
        click.echo(one_line(line), err=err)
