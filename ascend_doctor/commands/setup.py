"""``ascend-doctor setup``: resolve, plan, apply, prove."""

import datetime as dt
from pathlib import Path
from typing import Any

import click

from ascend_doctor.commands.options import defaulted, flag, repeated
from ascend_doctor.commands.options.input_file import InputFile, prefix_option
from ascend_doctor.commands.options.launch import framework_option, patience_option
from ascend_doctor.commands.options.matrix import matrix_option
from ascend_doctor.commands.short_help import ShortHelpCommand
from ascend_doctor.machine.kinds import LOCK

_FOLDER = click.Path(path_type=Path)


def _day(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    try:
        return dt.date.fromisoformat(value).isoformat() if value else value
    except ValueError as error:
        raise click.BadParameter(f"{value}: give a day as 2026-06-30") from error


# Options about this machine, not another one.
_HERE = ("venv", "active", "keep", "locked", "carried")
_USUAL = "megatron framework prefix venv dry_run locked accept keep proof offline yes"


@click.command("setup", cls=ShortHelpCommand, usual=_USUAL)
@click.option("--megatron", metavar="X", help="0.15.3, 0.15, or a ref of Megatron-LM.")
@framework_option
@prefix_option
@click.option("--venv", metavar="DIR", help="Environment to install into.  [default: the stack's]")
@repeated(
    "--on",
    metavar="NAME=VERSION",
    help="For another machine, with this fact (arch, python, cann, soc, driver, glibc); "
    "repeatable. With --dry-run, or --bundle for setup --offline there.",
)
@flag("--active", help="Install into the active environment.")
@click.option("--python", metavar="PATH", help="Python of the environment.  [default: active]")
@flag("--dry-run", help="Print the plan; ask no server and write nothing.")
@flag("--locked", help="Build what the lock says, or fail.")
@click.option(
    "--lock",
    metavar="FILE",
    type=InputFile(LOCK),
    help="The lock of --locked.  [default: ./ascend-doctor.lock, else the one in use]",
)
@flag("--offline", help="Use nothing but the bundle of --from.")
@click.option("--from", "carried", type=_FOLDER, metavar="DIR", help="Bundle that --bundle wrote.")
@click.option("--bundle", type=_FOLDER, metavar="DIR", help="Write a bundle to carry elsewhere.")
@repeated(
    "--with",
    "additions",
    metavar="NAME[==VERSION|@REF]",
    help="Have this as well, or in this version, or from this branch, tag or full commit of its "
    "repository; repeatable, and recorded in the lock.",
)
@repeated(
    "--accept",
    metavar="WHO:WHAT|CHECK",
    help="Build in spite of this documented conflict, as verl:torch, or use the stack in spite of "
    "this check's error; repeatable, and recorded.",
)
@click.option(
    "--keep",
    metavar="NAME,...",
    callback=lambda _, __, names: (*filter(None, map(str.strip, (names or "").split(","))),),
    help="Leave these packages of the interpreter alone, as torch,torch_npu of a vendor's image.",
)
@click.option(
    "--as-of",
    metavar="DATE",
    callback=_day,
    help="Take nothing younger from the indexes.  [default: the day of the stack's youngest row]",
)
@click.option(
    "--known-good/--no-known-good",
    default=None,
    help="Take the wheels with which the stack was proven, by their hashes; or resolve anew.  "
    "[default: take them if each has run]",
)
@defaulted(
    "--prove",
    "proof",
    type=click.Choice(["0", "1", "2", "3", "4", "rehearse"]),
    default="1",
    help="Check level that has to pass before the stack is put in use; simulated where there is "
    "no NPU. rehearse: level 3 on a simulated NPU.",
)
@repeated(
    "--git-mirror",
    "mirrors",
    metavar="[NAME=]URL_OR_DIR",
    help="Fetch from here: one component, or a place that has several; repeatable.",
)
@flag("-y", "--yes", help="Do not ask before building.")
@flag("-q", "--quiet", help="Say only what failed, and the verdict.")
@patience_option()
@matrix_option
def command(**options: Any) -> int:
    """Build a stack for a Megatron-LM: checkouts, environment and lock; prove it, put it in use.

    What is there already and right is left as it is, so that an interrupted setup goes on. The
    driver, the firmware and CANN are never installed: setup says which ones to get.

    \b
    Exit codes: those of the check that proves the stack. 1 also if a step failed, no stack fits
    or the stack was not activated; 2 bad usage or bad data.
    """
    _check_usage(options)
    from ascend_doctor.commands.setup_run import run_setup

    return run_setup(**options)


def _check_usage(options: dict[str, Any]) -> None:
    locked, carried = options["locked"], options["carried"]
    if options["offline"] != bool(carried):
        raise click.UsageError("--offline and --from DIR go together")
    asked = (options[name] for name in ("megatron", "framework", "additions"))
    if not (any(asked) or locked or carried):
        raise click.UsageError("say what to build: --megatron, --framework, --with or --locked")
    if options["venv"] and options["active"]:
        raise click.UsageError("--venv and --active exclude each other")
    if options["on"] and not (options["bundle"] or options["dry_run"]):
        raise click.UsageError("--on is of another machine: add --dry-run, or --bundle DIR")
    for name in _HERE:
        if options["on"] and options[name]:
            flag = "--from" if name == "carried" else f"--{name}"
            raise click.UsageError(f"--on is of another machine, and {flag} is of this one")
    if options["known_good"] and (locked or carried):
        raise click.UsageError("--known-good and a lock of yours exclude each other")
    if options["lock"] and not locked:
        raise click.UsageError("--lock names the lock of --locked")
