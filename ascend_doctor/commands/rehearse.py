"""``ascend-doctor rehearse``: the whole check on a simulated NPU, with the real torch_npu."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from ascend_doctor.commands.check import Wish, conduct
from ascend_doctor.commands.options.check_filter import selection_options
from ascend_doctor.commands.options.launch import (
    level_option,
    nproc_option,
    patience_option,
    timeout_option,
)
from ascend_doctor.commands.options.output import Output, output_options
from ascend_doctor.commands.options.probe_scope import ProbeScope, layout_options
from ascend_doctor.commands.options.target import Examination
from ascend_doctor.errors import DataError
from ascend_doctor.machine.live import LiveMachine
from ascend_doctor.machine.recorded import OverlayMachine
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.provision import lock as locks


@click.command("rehearse")
@click.option(
    "--python",
    metavar="PATH",
    help="Interpreter with torch and torch_npu.  [default: the active environment's]",
)
@click.option(
    "--prefix",
    metavar="DIR",
    help="Rehearse the stack that setup built here; or the folder of one stack.",
)
@click.option("--megatron", metavar="X", help="Rehearse the stack with this Megatron.")
@click.option(
    "--machine",
    "kind",
    default="a2-8",
    show_default=True,
    metavar="NAME",
    help="The machine around the NPUs: a2-8 or a3-16.",
)
@click.option("--soc", metavar="NAME", help="The chip.  [default: the machine's]")
@click.option(
    "--inject",
    "faults",
    multiple=True,
    metavar="FAULT",
    help="Break something; repeatable. `--inject list` shows what.",
)
@nproc_option("Ranks of level 3.", most=16, default=4)
@level_option("As for check.")
@timeout_option("Seconds for the whole run.")
@patience_option()
@layout_options
@selection_options
@output_options
def command(  # noqa: PLR0913 - the options of the command
    *,
    output: Output,
    python: str | None,
    prefix: str | None,
    megatron: str | None,
    kind: str,
    soc: str | None,
    faults: tuple[str, ...],
    nproc: int,
    level: int,
    timeout: float,
    asked: ProbeScope,
    only: tuple[str, ...],
    skip: tuple[str, ...],
) -> int:
    """Run the whole check on a simulated NPU with the real torch_npu, on any Linux machine.

    The same collectors, checks and probes as `check`; a stand-in CANN answers below torch_npu.
    Nothing that it says is about hardware, and everything it writes is marked as simulated.
    """
    from ascend_doctor.commands.env import environment  # noqa: PLC0415 - not for --help
    from ascend_doctor.simulator import FAULTS, build, machine, packages, parse  # noqa: PLC0415

    if "list" in faults:
        for fault in FAULTS:
            click.echo(f"{fault.id:<22} {fault.title}")
        return 0
    injected = [parse(text) for text in faults]
    live = LiveMachine()
    folder = _stack_folder(prefix, megatron)
    lock = locks.read(folder) if folder else None
    interpreter = python or _interpreter(folder, lock)
    server = machine(kind, soc=soc)
    family = Catalog().family_of(server.soc)
    builds: dict[str, Any] = {"kernels": family.id} if family else {}
    for injection in injected:
        builds.update(injection.fault.builds)
    tree = build(Path(interpreter), **builds)
    if lacking := packages.missing(interpreter):
        hint = f"without {', '.join(lacking)} some probes are skipped; install with"
        click.echo(f"ascend-doctor: {hint} {packages.command(interpreter)}", err=True)
    env = server.environment(tree, os.environ, injected)
    if folder and lock:
        env = environment(OverlayMachine(server.recording, live, env), folder, lock)
    examination = Examination(
        OverlayMachine(server.recording, live, env), python=interpreter, simulated=True
    )
    wish = Wish(
        level=level, device="npu", nproc=nproc, timeout=timeout, asked=replace(asked, small=True)
    )
    try:
        return conduct(examination, output, wish, only=only, skip=skip)
    finally:
        Path(env["ASCEND_SIMULATOR_LEDGER"]).unlink(missing_ok=True)


def _interpreter(folder: Path | None, lock: locks.Lock | None) -> str:
    from ascend_doctor.collect.python import active  # noqa: PLC0415 - not for --help

    if folder and lock:
        return f"{locks.environment_of(folder, lock)}/bin/python"
    interpreter = active(LiveMachine())
    if interpreter is None:
        raise DataError("there is no active Python environment; name one with --python")
    return interpreter


def _stack_folder(prefix: str | None, megatron: str | None) -> Path | None:
    """The folder of the stack to rehearse: the newest one with a Megatron, or the one in use."""
    if prefix and (not megatron or (Path(prefix) / locks.FILE).is_file()):
        return locks.stack_in_use(prefix)
    if not megatron:
        return None
    root = locks.Prefix.of(prefix).root
    known = {file.parent: locks.read(file) for file in root.glob(f"stacks/*/{locks.FILE}")}
    fitting = [folder for folder, lock in known.items() if lock.wish.get("megatron") == megatron]
    if not fitting:
        raise DataError(
            f"{root}: no stack with Megatron {megatron} was set up here; "
            f"ascend-doctor setup --megatron {megatron} builds one"
        )
    return max(fitting, key=lambda folder: known[folder].created_at)
