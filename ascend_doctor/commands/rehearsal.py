"""What a rehearsal runs on, and a user's own command on it: passed through, and what was seen."""

import contextlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from ascend_doctor.collect.python import active
from ascend_doctor.commands.env import environment
from ascend_doctor.commands.kept_launch import (
    diagnose_kept,
    explain_missing_program,
    hold_log,
    ranks_failed,
    run_kept,
    run_supervised,
    supervise,
)
from ascend_doctor.commands.rehearsed_end import JOURNAL, explains_end
from ascend_doctor.commands.rehearsed_ranks import describe_ranks
from ascend_doctor.commands.stall_watch import StallWatch, arm
from ascend_doctor.diagnosis.called_lines import find_mismatch
from ascend_doctor.diagnosis.next_step import SIMULATED
from ascend_doctor.diagnosis.stall_files import read_stall_files
from ascend_doctor.diagnosis.steps import read_steps
from ascend_doctor.errors import DataError
from ascend_doctor.findings import show_bytes
from ascend_doctor.language import say
from ascend_doctor.machine.live import LiveMachine
from ascend_doctor.machine.recorded import OverlayMachine
from ascend_doctor.machine.scratch import new_folder
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.progress import STEPS, TaskDisplay
from ascend_doctor.provision import lock as locks
from ascend_doctor.render.columns import pad
from ascend_doctor.render.plain import one_line
from ascend_doctor.render.stall import mismatch_rows
from ascend_doctor.shrinking.programs import ProgramSettings, write_programs
from ascend_doctor.shrinking.true_size import TrueSize
from ascend_doctor.simulator import FAULTS, Injection, build, parse
from ascend_doctor.simulator.ledger import SUFFIX, Account, hold, read_account
from ascend_doctor.simulator.machines import TOOLS, SimulatedMachine, write_tools
from ascend_doctor.simulator.nodes import command_on_nodes, prepare_nodes
from ascend_doctor.simulator.rank_records import RECORDS, RankRecord, make_records, read_records
from ascend_doctor.simulator.timeline import TIMELINE, prepare_trace, write_trace
from ascend_doctor.timestamps import seconds

# Operators without a simulated kernel, as runtime and dispatcher report them.
_BUILD = "building the simulated NPU"
_LACKING = re.compile(rb"\b([\w:.]{3,80}) is not simulated|Could not run '([\w:.]{3,80})'")


class Rehearsal(msgspec.Struct, frozen=True, kw_only=True):
    """``scratch`` is the folder for what is made for it, the ledger too."""

    server: SimulatedMachine
    env: dict[str, str]
    interpreter: str
    scratch: Path

    def machine(self) -> OverlayMachine:
        """The simulated machine in front of this one."""
        return OverlayMachine(self.server.record(), LiveMachine(), self.env)


def list_faults() -> int:
    for fault in FAULTS:
        click.echo(f"{fault.id:<22} {say(fault.title)}")
    return 0


def prepare(
    stack: Path | None,
    python: str | None,
    server: SimulatedMachine,
    faults: Sequence[str],
    *,
    launch: Sequence[str] = (),
    quiet: bool = False,
) -> Rehearsal:
    """A stack, or an interpreter, on a simulated machine in which something may be broken.

    The CANN stand-in is compiled once for a torch_npu, with a note on standard error; the program
    of a ``launch`` is looked for before. Raises DataError for what is unknown or absent.
    """
    lock = locks.read(stack) if stack else None
    interpreter = find_interpreter(python, stack, lock)
    if launch and launch[0] not in TOOLS:
        # A misspelt program fails before a compiler is waited for.
        search_path(interpreter, launch, env=os.environ)
    scratch = new_folder()
    injections = [parse(text) for text in faults]
    with TaskDisplay(STEPS, [_BUILD], quiet=quiet) as display, display.run(_BUILD):
        env = _environment(server, interpreter, scratch, injections)
    prepared = Rehearsal(server=server, env=env, interpreter=interpreter, scratch=scratch)
    if not (stack and lock):
        return prepared
    return msgspec.structs.replace(prepared, env=environment(prepared.machine(), stack, lock))


def rehearse_launch(
    rehearsal: Rehearsal,
    launch: Sequence[str],
    *,
    log: str,
    shrink: bool = False,
    size: TrueSize | None = None,
    nodes: int = 1,
    stall: float = 0,
) -> int:
    """Run a command on the simulated machine; gives its exit code.

    ``stall``: seconds without progress until ranks that did not join are reported. ``shrink`` makes
    trainings small. It starts on each of the ``nodes``. Its output passes unchanged; ours goes to
    standard error. Nothing outlives it or us. Raises DataError if it cannot start.
    """
    server = rehearsal.server
    env = launch_environment(rehearsal, launch)
    if shrink or size:
        env |= _place_programs(rehearsal, env["PATH"], size)
    trace = size.trace if size else None
    if trace:
        env[TIMELINE] = prepare_trace(rehearsal.scratch, trace, env)
    command, ledgers = launch, [rehearsal.env["ASCEND_SIMULATOR_LEDGER"]]
    if nodes > 1:
        each = prepare_nodes(server, nodes, rehearsal.scratch, env)
        command = command_on_nodes(launch, each)
        ledgers = [node.variables["ASCEND_SIMULATOR_LEDGER"] for node in each]
    on_nodes = f"{nodes} nodes of " if nodes > 1 else ""
    _say(
        f"{on_nodes}{server.kind.devices} {server.soc} with {show_bytes(server.memory)} each; "
        "nothing here is about hardware"
    )
    log = hold_log(log)
    watch = arm(log, stall, env)
    with contextlib.ExitStack() as stack:
        if watch is not None:
            env[JOURNAL] = str(stack.enter_context(contextlib.closing(watch)).folder)
        code = _conduct(rehearsal, command, log, env, ledgers, watch)
    if trace:
        rows = write_trace(Path(env[TIMELINE]), trace)
        _say(f"{trace} has the time line, {rows} rows, for ui.perfetto.dev")
    return code


def count_launch(
    rehearsal: Rehearsal, launch: Sequence[str], size: TrueSize, log: str, seconds: float
) -> tuple[int, list[RankRecord]]:
    """Run a launch at its true size, which only ``log`` shows; gives its exit code too.

    It ends after ``seconds``. Raises DataError if it cannot start.
    """
    env = launch_environment(rehearsal, launch)
    env |= _place_programs(rehearsal, env["PATH"], size)
    unfinished = new_folder()
    code = run_supervised(launch, log, env, folder=unfinished, shown=False, seconds=seconds)
    return code, read_records(Path(env[RECORDS]))


def _place_programs(rehearsal: Rehearsal, path: str, size: TrueSize | None) -> dict[str, str]:
    npus, python = rehearsal.server.kind.devices, rehearsal.interpreter
    settings = ProgramSettings(npus=npus, python=python, size=size)
    records = {RECORDS: str(make_records(rehearsal.scratch))} if size else {}
    return records | write_programs(rehearsal.scratch, path, settings)


def _conduct(
    rehearsal: Rehearsal,
    command: Sequence[str],
    log: str,
    env: Mapping[str, str],
    ledgers: Sequence[str],
    watch: StallWatch | None = None,
) -> int:
    with supervise(command, rehearsal.scratch) as (keeper, life_line):
        code = run_kept(keeper, log, env, pass_fds=(life_line,), watch=watch)
    server = rehearsal.server
    account = read_account(*map(Path, ledgers))
    if RECORDS in env:
        lines = describe_ranks(read_records(Path(env[RECORDS])), server.memory)
    else:
        npus = len(ledgers) * server.kind.devices
        lines = _closing_lines(log, account, server.memory, npus)
    for line in lines:
        _say(line)
    mismatch = find_mismatch(read_stall_files([str(watch.folder)]).lines) if watch else None
    if mismatch:
        for label, text in mismatch_rows(mismatch):
            _say(one_line(f"{pad(say(label), 8)} {say(text)}"))
    # A launch piped into `tee` ends with 0 all the same.
    failed = code or ranks_failed(log)
    if failed:
        gathered = str(watch.folder.parent) if watch and explains_end(watch, log) else None
        diagnose_kept(log, code, gathered=gathered, simulated=True)
    return code or int(mismatch is not None and not failed)


def launch_environment(rehearsal: Rehearsal, launch: Sequence[str]) -> dict[str, str]:
    """Make the machine's folders; gives a command's variables. Raises DataError if not on PATH."""
    server, folder = rehearsal.server, rehearsal.scratch
    hold(Path(rehearsal.env["ASCEND_SIMULATOR_LEDGER"]))
    write_tools(server, folder)
    temporary = folder / "tmp"
    temporary.mkdir()
    path = search_path(rehearsal.interpreter, launch, folder, env=rehearsal.env)
    return {**rehearsal.env, SIMULATED: "1", "PATH": path, "TMPDIR": str(temporary)}


def search_path(
    interpreter: str, launch: Sequence[str], *first: Path, env: Mapping[str, str]
) -> str:
    """PATH: named folders, the interpreter's, ``env``'s. Raises DataError without the program."""
    # The torchrun beside the interpreter belongs to it.
    folders = (*first, Path(interpreter).parent.absolute(), env.get("PATH"))
    path = ":".join(str(folder) for folder in folders if folder)
    if shutil.which(launch[0], path=path) is None:
        raise explain_missing_program(launch[0])
    return path


def _closing_lines(log: str, account: Account, memory: int, npus: int) -> Iterator[str]:
    with open(log, "rb") as file:
        steps = read_steps(file)
        file.seek(0)
        lacking = {next(filter(None, match)) for line in file for match in _LACKING.findall(line)}
    if steps:
        change = f"{steps.name} {steps.first:g} to {steps.last:g}"
        yield f"{steps.logged} steps, {change}" if steps.logged > 1 else f"1 step, {change}"
    if account.peaks:
        most = max(account.peaks)
        yield (
            f"memory at most {show_bytes(most)} of {show_bytes(memory)}, on "
            f"{len(account.peaks)} of {npus} NPUs"
        )
    for tally in sorted(account.tallies, key=lambda tally: -tally.bytes):
        times = "once" if tally.calls == 1 else f"{tally.calls:,} times"
        ranks = "1 rank" if tally.ranks == 1 else f"{tally.ranks} ranks"
        yield f"{tally.operation} of {ranks} {times}, {show_bytes(tally.bytes)} given by one rank"
    if lacking:
        names = ", ".join(one_line(name.decode("utf-8", "replace")) for name in sorted(lacking))
        yield f"the simulated NPU does not have: {names}"


def _say(text: str) -> None:
    click.echo(f"ascend-doctor: {say('simulated')}: {say(text)}", err=True)


def _environment(
    server: SimulatedMachine, interpreter: str, scratch: Path, faults: list[Injection]
) -> dict[str, str]:
    family = Catalog().family_of(server.soc)
    builds: dict[str, Any] = {"kernels": family.id} if family else {}
    for injection in faults:
        builds.update(injection.fault.builds)
    base = {**os.environ, "ASCEND_SIMULATOR_LEDGER": str(scratch / f"machine{SUFFIX}")}
    return server.environment(build(Path(interpreter), **builds), base, faults)


def find_interpreter(
    python: str | None, folder: Path | None = None, lock: locks.Lock | None = None
) -> str:
    """The interpreter that was named, that of a stack, or the active one. Raises DataError."""
    if python:
        return python
    if folder and lock:
        return f"{locks.environment_of(folder, lock)}/bin/python"
    interpreter = active(LiveMachine())
    if interpreter is None:
        raise DataError("there is no active Python environment; name one with --python")
    return interpreter


def choose_stack(prefix: str | None, megatron: str | None) -> Path | None:
    """The stack to rehearse: the newest one with a Megatron, or the one in use."""
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
    return max(fitting, key=lambda folder: seconds(known[folder].created_at))
