"""``ascend-doctor env``: the variables of a stack, as text that a shell may source."""

import copy
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from ascend_doctor.collect.cann_host import cann_host
from ascend_doctor.commands.options import flag
from ascend_doctor.commands.options.input_file import InputFile
from ascend_doctor.errors import DataError, DoctorError
from ascend_doctor.language import say
from ascend_doctor.machine.live import LiveMachine, Machine, is_directory
from ascend_doctor.provision import lock as locks
from ascend_doctor.provision.cann_env import CannHost
from ascend_doctor.provision.env_format import FAILURE, FORMS, SHELLS, Change, text
from ascend_doctor.provision.env_undo import NAME, before, changes_to, undone
from ascend_doctor.provision.lock import Lock
from ascend_doctor.provision.stack_env import StackPaths, stack_of, variables
from ascend_doctor.render.notices import notice
from ascend_doctor.render.plain import one_line

# A process substitution, a wrapper script and a Python launcher may lie between.
_GENERATIONS = 8
_POSIX_SHELLS = ("dash", "ash", "ksh")


class _Sourced(click.Command):
    """A command whose output a shell sources: if it fails, the shell must fail too."""

    def make_context(self, info_name: str | None, args: list[str], *rest: Any, **more: Any) -> Any:
        arguments = list(args)
        try:
            return super().make_context(info_name, args, *rest, **more)
        except click.exceptions.Exit:
            raise
        except BaseException:
            _fail(arguments)
            raise

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BaseException:
            _fail([ctx.params["form"] or ""])
            raise


def _fail(arguments: Sequence[str]) -> None:
    if not any(argument.endswith(("json", "dotenv")) for argument in arguments):
        sys.stdout.write(FAILURE)


@click.command("env", cls=_Sourced)
@click.option(
    "--prefix",
    metavar="DIR",
    type=InputFile(),
    help="Where setup built; or the folder of one stack.",
)
@click.option("--shell", "form", type=click.Choice(FORMS), help="Default: the shell that calls.")
@flag("--undo", help="Give every variable the value that it had.")
@flag("--diff", help="Show, as comments, what would change.")
@flag("--simulated", help="With 8 simulated NPUs, as `rehearse` has them.")
def command(
    *, prefix: str | None, form: str | None, undo: bool, diff: bool, simulated: bool
) -> int:
    """Print the variables of the stack and of CANN, to be sourced.

    \b
    bash, zsh:  source <(ascend-doctor env)
    fish:       ascend-doctor env | source
    sh, dash:   eval "$(ascend-doctor env)"

    Without a stack it prints those of the machine's CANN. To take all back, add --undo.
    """
    environ = os.environ
    if undo and simulated:
        raise click.UsageError(
            "--undo takes all back, what is simulated too; leave --simulated out"
        )
    plan = _plan_simulated if simulated else _changes
    changes = _undo(environ) if undo else plan(environ, locks.stack_in_use(prefix))
    if diff:
        _show(environ, changes)
        return 0
    chosen = form or _calling_shell(environ)
    # Only a shell can use what is kept for --undo.
    if chosen not in SHELLS:
        changes = [change for change in changes if change.name != NAME]
    sys.stdout.flush()
    sys.stdout.buffer.write(os.fsencode(text(changes, chosen)))
    return 0


def _undo(environ: Mapping[str, str]) -> list[Change]:
    changes = undone(environ)
    if not changes:
        notice("there is nothing to undo")
    return changes


def _plan_simulated(environ: Mapping[str, str], folder: Path | None) -> list[Change]:
    from ascend_doctor.commands.rehearsal import prepare
    from ascend_doctor.diagnosis.next_step import SIMULATED
    from ascend_doctor.simulator import machine
    from ascend_doctor.simulator.ledger import new_ledger

    base = before(environ)
    env = prepare(folder, None, machine("a2-8"), ()).env
    env |= {SIMULATED: "1", "ASCEND_SIMULATOR_LEDGER": str(new_ledger())}
    names = sorted({*env, *base} - {NAME})
    changes = (Change(name, env.get(name), "simulated NPUs") for name in names)
    return changes_to(
        environ, [change for change in changes if change.value != base.get(change.name)]
    )


def _changes(environ: Mapping[str, str], folder: Path | None) -> list[Change]:
    """Changes for the stack in a folder; oddities of its CANN go to stderr."""
    lock = locks.read(folder) if folder else None
    changes, host = _plan_changes(LiveMachine(environ), folder, lock)
    version = lock.system.get("cann") if lock else None
    if host.cann is None:
        notice("no CANN toolkit was found; torch will not load torch_npu")
    elif version and host.version != version:
        here = host.version or "an unknown version"
        notice(f"the stack was made for CANN {version}; here is {here} in {host.cann.root}")
    return changes


def environment(machine: Machine, folder: Path, lock: Lock) -> dict[str, str]:
    """A stack's environment, to prove or rehearse in. Raises DataError and DoctorError."""
    env = dict(machine.env)
    for change in _plan_changes(machine, folder, lock)[0]:
        if change.value is None:
            env.pop(change.name, None)
        else:
            env[change.name] = change.value
    return env


def _plan_changes(
    machine: Machine, folder: Path | None, lock: Lock | None
) -> tuple[list[Change], CannHost]:
    """The one authority on variables, and their CANN."""
    base = before(machine.env)
    examined = copy.copy(machine)
    examined.env = base
    stack = stack_of(folder, lock) if folder and lock else _shell_stack(examined)
    for checkout in (*stack.checkouts.values(), *filter(None, [stack.environment])):
        if not is_directory(machine, checkout):
            raise DataError(f"{checkout} is missing from the stack; run ascend-doctor setup again")
    host = cann_host(examined, stack.environment, lock.system.get("cann") if lock else None)
    if host.cann is None and not stack.checkouts:
        raise DoctorError(
            "there is neither a stack nor a CANN toolkit to set variables for; "
            "ascend-doctor setup builds a stack, ascend-doctor check says what is missing"
        )
    return changes_to(machine.env, variables(base, stack, host)), host


def _shell_stack(machine: Machine) -> StackPaths:
    tree = machine.env.get("MEGATRON_LM_PATH", "")
    if not (os.path.isabs(tree) and is_directory(machine, f"{tree}/megatron/core")):
        return StackPaths()
    tree = os.path.normpath(tree)
    return StackPaths(checkouts={"megatron-lm": tree}, modules=(tree,))


def _calling_shell(environ: Mapping[str, str]) -> str:
    """The nearest parent shell, else the login shell."""
    process = os.getppid()
    for _ in range(_GENERATIONS):
        try:
            with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
                head, _, tail = file.read().rpartition(")")
        except OSError:
            break
        name = head.partition("(")[2].lstrip("-")
        if name in SHELLS or name in _POSIX_SHELLS:
            return name if name in SHELLS else "sh"
        # The name in parentheses may hold blanks: count fields after it (proc(5)).
        process = int(tail.split()[1])
    login = os.path.basename(environ.get("SHELL", ""))
    return login if login in SHELLS else "bash"


def _show(environ: Mapping[str, str], changes: Sequence[Change]) -> None:
    for change in changes:
        old = environ.get(change.name)
        if change.name == NAME or old == change.value:
            continue
        click.echo(f"# {change.name}: {one_line(say(change.because))}")
        listed = ":" if change.name.endswith("PATH") else None
        gone, come = (
            value.split(listed) if value and listed else [value] for value in (old, change.value)
        )
        for entry in gone:
            if entry is not None and entry not in come:
                click.echo(f"#   - {one_line(entry)}")
        for entry in come:
            if entry is not None and entry not in gone:
                click.echo(f"#   + {one_line(entry)}")
