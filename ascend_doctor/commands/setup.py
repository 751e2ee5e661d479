"""``ascend-doctor setup``: resolve, plan, apply, prove."""

import datetime as dt
from pathlib import Path
from typing import Any

import click

from ascend_doctor.commands.options.input_file import InputFile
from ascend_doctor.commands.options.launch import framework_option, patience_option
from ascend_doctor.commands.options.matrix import matrix_option
from ascend_doctor.commands.options.prefix import prefix_option
from ascend_doctor.commands.short_help import ShortHelpCommand
from ascend_doctor.machine.kinds import LOCK

_FOLDER = click.Path(path_type=Path)


def _split_list(_: click.Context, __: click.Parameter, value: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in value.split(",") if name.strip()) if value else ()


def _day(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    try:
        return dt.date.fromisoformat(value).isoformat() if value else value
    except ValueError as error:
        raise click.BadParameter(f"{value}: give a day as 2026-06-30") from error


# Options about this machine, useless for another one that a bundle is for.
_HERE = ("venv", "active", "keep", "locked", "carried")
_USUAL = "megatron framework prefix venv dry_run locked accept keep proof offline yes"


@click.command("setup", cls=ShortHelpCommand, usual=_USUAL)
@click.option("--megatron", metavar="X", help="0.15.3, 0.15, or a ref of Megatron-LM.")
@framework_option
@prefix_option
@click.option("--venv", metavar="DIR", help="Environment to install into.  [default: the stack's]")
@click.option(
    "--on",
    metavar="NAME=VERSION",
    multiple=True,
    help="For another machine, with this fact (arch, python, cann, soc, driver, glibc); "
    "repeatable. Only --bundle is written, for setup --offline there.",
)
@click.option("--active", is_flag=True, help="Install into the active environment.")
@click.option("--python", metavar="PATH", help="Python of the environment.  [default: active]")
@click.option("--dry-run", is_flag=True, help="Print the plan; ask no server and write nothing.")
@click.option("--locked", is_flag=True, help="Build what the lock says, or fail.")
@click.option(
    "--lock",
    metavar="FILE",
    type=InputFile(LOCK),
    help="The lock of --locked.  [default: ./ascend-doctor.lock, else the one in use]",
)
@click.option("--offline", is_flag=True, help="Use nothing but the bundle of --from.")
@click.option("--from", "carried", type=_FOLDER, metavar="DIR", help="Bundle that --bundle wrote.")
@click.option("--bundle", type=_FOLDER, metavar="DIR", help="Write a bundle to carry elsewhere.")
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
    metavar="NAME[==VERSION|@REF]",
    help="Have this as well, or in this version, or from this branch, tag or full commit of its "
    "repository; repeatable, and recorded in the lock.",
)
@click.option(
    "--accept",
    multiple=True,
    metavar="WHO:WHAT|CHECK",
    help="Build in spite of this documented conflict, as verl:torch, or use the stack in spite of "
    "this check's error; repeatable, and recorded.",
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
    type=click.Choice(["0", "1", "2", "3", "4", "rehearse"]),
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
@patience_option()
@matrix_option
def command(**options: Any) -> int:
    """Build a stack for a Megatron-LM: checkouts, environment and lock; prove it, put it in use.

    What is there already and right is left as it is, so that an interrupted setup goes on. The
    driver, the firmware and CANN are never installed: setup says which ones to get.

    \b
    Exit codes: those of the check that proves the stack. 1 also if a step failed, no stack fits
    or the stack was not activated; 2 bad usage or bad data.
    """  # noqa: D301 - \b is click's mark for a block that is not to be rewrapped
    _check_usage(options)
    from ascend_doctor.commands.setup_run import run_setup  # noqa: PLC0415 - after usage

    return run_setup(**options)


def _check_usage(options: dict[str, Any]) -> None:
    megatron, locked, carried = (options[name] for name in ("megatron", "locked", "carried"))
    if options["offline"] != bool(carried):
        raise click.UsageError("--offline and --from DIR go together")
    if not (megatron or locked or carried):
        raise click.UsageError("--megatron says what to build; or --locked, or --offline --from")
    if options["venv"] and options["active"]:
        raise click.UsageError("--venv and --active exclude each other")
    if options["on"] and not options["bundle"]:
        raise click.UsageError("--on is of another machine: --bundle DIR says what to carry there")
    for name in _HERE:
        if options["on"] and options[name]:
            flag = "--from" if name == "carried" else f"--{name}"
            raise click.UsageError(f"--on is of another machine, and {flag} is of this one")
    if options["lock"] and not locked:
        raise click.UsageError("--lock names the lock of --locked")
    if options["signed_by"] and not (locked or carried):
        raise click.UsageError("--require-signed goes with --locked or --from")
