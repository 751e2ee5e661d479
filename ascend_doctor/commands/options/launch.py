"""Options that several commands have: how far to look, on what, with how many ranks, how long."""

import os
from collections.abc import Callable
from typing import Any

import click

from ascend_doctor.commands.options import defaulted
from ascend_doctor.machine import watchdog
from ascend_doctor.machine.patience import EMULATED, MOST, VARIABLE

# Of a simulated machine: a3-16 has that many.
MOST_NPUS = 16

Option = Callable[[Callable[..., Any]], Callable[..., Any]]
# They wait for others.
_ENDLESS = {"help"}


def read_megatron(text: str) -> str:
    """A version of Megatron-LM, also as core_v0.15.3. Raises UsageError."""
    from ascend_doctor.matrix.versions import VersionError, parse

    plain = text.removeprefix("core_").removeprefix("v")
    try:
        return plain and str(parse("pep440", plain) and plain)
    except VersionError:
        raise click.UsageError(f"--megatron {text}: name a version, such as 0.15.3") from None


framework_option = click.option(
    "--framework", metavar="F", help="ms-swift, twinkle, verl, mindspeed-llm; or F==V."
)
examined_option = click.option(
    "--python", metavar="PATH", help="Interpreter to examine.  [default: the active environment's]"
)
stall_option = defaulted(
    "--stall",
    type=click.FloatRange(min=0),
    default=60,
    metavar="SECONDS",
    help="Report ranks that did not join after so long without output or a new collective; "
    "0 disables.",
)
trainer_option = click.option(
    "--python",
    metavar="PATH",
    help="Interpreter with torch and torch_npu.  [default: the active environment's]",
)


def level_option(text: str) -> Option:
    from ascend_doctor.report import LEVELS

    return defaulted("-l", "--level", type=click.IntRange(0, len(LEVELS) - 1), default=3, help=text)


def device_option(text: str) -> Option:
    return defaulted(
        "--device", type=click.Choice(["auto", "npu", "cuda", "cpu"]), default="auto", help=text
    )


def nproc_option(text: str, *, most: int = 4096, default: int | None = None) -> Option:
    return defaulted(
        "--nproc", type=click.IntRange(1, most), default=default, metavar="N", help=text
    )


def npus_option(text: str, *, default: int | None = None) -> Option:
    return click.option(
        "--npus",
        type=click.IntRange(1, MOST_NPUS),
        default=default,
        show_default=default is not None,
        metavar="N",
        help=text,
    )


def memory_option(text: str, default: float | None = 4) -> Option:
    return defaulted(
        "--memory",
        type=click.FloatRange(min=0.25, max=1024),
        default=default,
        metavar="GIB",
        help=f"Memory of each simulated NPU; what is used of it is this machine's own.{text}",
    )


def patience_option() -> Option:
    """One factor for every deadline of this process and of what it starts."""
    return click.option(
        "--patience",
        type=click.FloatRange(1, MOST),
        metavar="N",
        expose_value=False,
        callback=_be_patient,
        help="Multiply every deadline, that of the whole run too.  [default: 1; "
        f"{EMULATED:g} where the processor is emulated]",
    )


def _be_patient(_: click.Context, __: click.Parameter, factor: float | None) -> None:
    if factor is not None:
        os.environ[VARIABLE] = f"{factor:g}"
        watchdog.be_patient()


def _limit(_: click.Context, __: click.Parameter, seconds: float | None) -> float | None:
    # Reading other options can hang too, perhaps before --patience is read.
    if seconds is not None:
        watchdog.limit(seconds)
    return seconds


def timeout_option(text: str, *, default: int = 900, least: int = 1, whole: bool = False) -> Option:
    """Seconds for all that a command does (``whole``), or for what ``text`` names."""
    return click.option(
        "--timeout",
        # Before options that read files, which may hang.
        is_eager=whole,
        callback=_limit if whole else None,
        type=click.FloatRange(min=least),
        metavar="S",
        default=default,
        show_default=True,
        help=text,
    )


def limit_command(command: click.Command) -> click.Command:
    """Add --timeout if absent: any command may wait for a file."""
    names = {parameter.name for parameter in command.params}
    if not (isinstance(command, click.Group) or command.name in _ENDLESS or "timeout" in names):
        option = click.Option(
            ["--timeout"],
            is_eager=True,
            expose_value=False,
            callback=_limit,
            type=click.FloatRange(min=1),
            metavar="S",
            help="Seconds for the whole run.  [default: no limit]",
        )
        command.params.append(option)
    return command
