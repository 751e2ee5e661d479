"""``ascend-doctor rehearse``: the whole check on a simulated NPU, with the real torch_npu."""

import click
from click.core import ParameterSource
from msgspec.structs import replace

from ascend_doctor.commands.check import Wish, make_report
from ascend_doctor.commands.options import defaulted, flag, repeated
from ascend_doctor.commands.options.check_filter import refuse_unknown, selection_options
from ascend_doctor.commands.options.launch import (
    level_option,
    memory_option,
    nproc_option,
    npus_option,
    patience_option,
    stall_option,
    timeout_option,
    trainer_option,
)
from ascend_doctor.commands.options.output import Output, output_options
from ascend_doctor.commands.options.probe_scope import ProbeScope, layout_options
from ascend_doctor.commands.options.target import Examination
from ascend_doctor.commands.options.true_size import true_size_options
from ascend_doctor.commands.short_help import ShortHelpCommand
from ascend_doctor.machine import watchdog
from ascend_doctor.shrinking.true_size import TrueSize

MOST_NODES = 8
# The chips of docs/records/true-size.md; what is computed is this machine's own.
_MEMORY = {True: 64, False: 4}


_USUAL = "prefix megatron kind soc faults npus nproc level only timeout formats files"


@click.command("rehearse", cls=ShortHelpCommand, usual=_USUAL)
@trainer_option
@click.option(
    "--prefix",
    metavar="DIR",
    help="Rehearse the stack that setup built here; or the folder of one stack.",
)
@click.option("--megatron", metavar="X", help="Rehearse the stack with this Megatron.")
@defaulted(
    "--machine",
    "kind",
    default="a2-8",
    metavar="NAME",
    help="The machine around the NPUs: a2-8 or a3-16.",
)
@click.option("--soc", metavar="NAME", help="The chip.  [default: the machine's]")
@repeated(
    "--inject",
    "faults",
    metavar="FAULT",
    help="Break something; repeatable. `--inject list` shows what.",
)
@npus_option("NPUs of the machine.  [default: 8 of a2-8, 16 of a3-16]")
@memory_option("  [default: 4, with --true-size 64]", None)
@nproc_option("Ranks of level 3.", most=16, default=4)
@level_option("As for check.")
@timeout_option("Seconds for the whole check.", whole=True)
@patience_option()
@defaulted(
    "--log",
    metavar="FILE",
    default="ascend-doctor-rehearsal.log",
    help="Where what COMMAND prints is kept; an older one is replaced.",
)
@defaulted(
    "--nodes",
    type=click.IntRange(1, MOST_NODES),
    default=1,
    metavar="N",
    help="Run COMMAND on so many nodes on this machine, each with its own NPUs and host name.",
)
@flag("--shrink", help="Make each training that COMMAND starts small enough for the NPUs, by rule.")
@true_size_options
@stall_option
@layout_options
@selection_options
@output_options
@click.argument("launch", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
def command(
    *,
    output: Output,
    launch: tuple[str, ...],
    log: str,
    shrink: bool,
    size: TrueSize | None,
    nodes: int,
    stall: float,
    npus: int | None,
    memory: float | None,
    python: str | None,
    prefix: str | None,
    megatron: str | None,
    kind: str,
    soc: str | None,
    faults: tuple[str, ...],
    nproc: int,
    level: int,
    timeout: float,
    scope: ProbeScope,
    only: tuple[str, ...],
    skip: tuple[str, ...],
) -> int:
    """Run the whole check, or a command of yours, on simulated NPUs with the real torch_npu.

    \b
    ascend-doctor rehearse
    ascend-doctor rehearse --npus 4 -- torchrun --nproc-per-node 4 train.py

    The same checks and probes as `check`; a stand-in CANN answers below torch_npu. Nothing that
    it says is about hardware. What COMMAND prints passes through unchanged, and its exit code is
    ours; what was seen is told on standard error, a failure is diagnosed, and nothing outlives it.
    """
    from ascend_doctor.commands import rehearsal
    from ascend_doctor.simulator import machine

    if "list" in faults:
        return rehearsal.list_faults()
    _refuse_unused(launch, (*only, *skip))
    if launch:
        watchdog.limit(None)  # it has as long as it takes
    prepared = rehearsal.prepare(
        rehearsal.choose_stack(prefix, megatron),
        python,
        machine(kind, soc=soc, npus=npus, memory=int((memory or _MEMORY[bool(size)]) * (1 << 30))),
        faults,
        launch=launch,
        quiet=output.quiet,
    )
    if launch:
        return rehearsal.rehearse_launch(
            prepared, launch, log=log, shrink=shrink, size=size, nodes=nodes, stall=stall
        )
    examination = Examination(prepared.machine(), python=prepared.interpreter, simulated=True)
    wish = Wish(
        level=level, device="npu", nproc=nproc, timeout=timeout, asked=replace(scope, small=True)
    )
    return make_report(examination, output, wish, only=only, skip=skip).exit_code


def _refuse_unused(launch: tuple[str, ...], named: tuple[str, ...]) -> None:
    refuse_unknown(named)
    both = {"launch", "python", "prefix", "megatron", "kind", "soc", "faults", "npus", "memory"}
    of_command = {"log", "nodes", "shrink", "stall", "true_size", "world", "real", "trace"}
    context = click.get_current_context()
    if context.params["shrink"] and context.params["nodes"] > 1:
        raise click.UsageError("--shrink makes launches of one node; leave --nodes out")
    for parameter in context.command.params:
        name = parameter.name or ""
        typed = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if typed and name not in both and bool(launch) is (name not in of_command):
            needs = "is for the check, not for a command" if launch else "needs a command"
            raise click.UsageError(f"{parameter.opts[-1]} {needs}")
