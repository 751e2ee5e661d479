"""The options of commands that run something in a stack: `lint --exact`, `plan --run`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from ascend_doctor.commands.options import flag
from ascend_doctor.commands.options.gather import Decorator, gather_options
from ascend_doctor.errors import DataError
from ascend_doctor.machine.scratch import temporary
from ascend_doctor.render.notices import notice

if TYPE_CHECKING:
    from ascend_doctor.commands.planned_launch import LaunchPage
    from ascend_doctor.linting.inputs import LintInput

_SECONDS, _SECONDS_OF_LAUNCH = 300.0, 30.0
_MOST_LAYOUTS = 32


class ExactLint(msgspec.Struct, frozen=True, kw_only=True):
    """The stack whose frameworks are asked about launches."""

    python: str | None = None
    prefix: str | None = None

    def ask(self, inputs: Sequence[LintInput]) -> list[LintInput]:
        """Add the frameworks' answers. Raises DataError and DoctorError."""
        from ascend_doctor.commands import rehearsal
        from ascend_doctor.linting.exact import ask, mark_unasked, split_launches
        from ascend_doctor.simulator import machine

        parts = split_launches(inputs)
        if not parts:
            return [*map(mark_unasked, inputs)]
        stack = rehearsal.choose_stack(self.prefix, None)
        prepared = rehearsal.prepare(stack, self.python, machine("a2-8"), ())
        notice(f"imports the frameworks of {prepared.interpreter} with simulated NPUs")
        with temporary() as folder:
            python, env = prepared.interpreter, prepared.env
            seconds = _SECONDS + _SECONDS_OF_LAUNCH * len(parts)
            return ask(inputs, parts, python, env, Path(folder), seconds)


class LaunchRuns(msgspec.Struct, frozen=True, kw_only=True):
    """What of a launch runs, in which stack: it itself, and ``sweep`` other layouts."""

    run: bool = False
    sweep: int = 0
    python: str | None = None
    prefix: str | None = None

    def count(self, page: LaunchPage, seconds: float) -> LaunchPage:
        """Add what the runs take. Raises DataError and DoctorError."""
        from ascend_doctor.commands import rehearsal
        from ascend_doctor.commands.counted_launch import count, list_layouts
        from ascend_doctor.simulator import machine_of

        plan = page.judged[0].plan if len(page.judged) == 1 else None
        if self.sweep and plan is None:
            raise DataError("--sweep needs one launch whose sizes are known")
        layouts = list_layouts(plan, page.where, self.sweep) if self.sweep and plan else ()
        stack = rehearsal.choose_stack(self.prefix, None)
        server = machine_of(page.chip.removesuffix(" assumed"), int(page.where.memory))
        prepare = partial(
            rehearsal.prepare, stack, self.python, server, (), launch=page.again, quiet=True
        )
        counted, tried = count(page.again, layouts, prepare, seconds, alone=self.run)
        return msgspec.structs.replace(page, counted=counted, tried=tried)


def _gather(*, exact: bool, python: str | None, prefix: str | None) -> ExactLint | None:
    if not exact and (python or prefix):
        raise click.UsageError("--python and --prefix need --exact")
    if exact and click.get_current_context().params["hook"]:
        raise click.UsageError("--hook runs nothing, and --exact does")
    return ExactLint(python=python, prefix=prefix) if exact else None


def _gather_runs(
    *, run: bool, sweep: int | None, python: str | None, prefix: str | None
) -> LaunchRuns | None:
    if run or sweep:
        return LaunchRuns(run=run, sweep=sweep or 0, python=python, prefix=prefix)
    if python or prefix:
        raise click.UsageError("--python and --prefix need --run or --sweep")
    return None


def _stack_options(switch: str) -> tuple[Decorator, Decorator]:
    python = f"With {switch}: interpreter of the stack.  [default: the active environment's]"
    return (
        click.option("--python", metavar="PATH", help=python),
        click.option("--prefix", metavar="DIR", help=f"With {switch}: a stack that setup built."),
    )


exact_options = gather_options(
    "exact",
    _gather,
    flag(
        "--exact",
        help="Ask the installed frameworks: their parsers and validation run, no training.",
    ),
    *_stack_options("--exact"),
)
run_options = gather_options(
    "runs",
    _gather_runs,
    flag("--run", help="Count a LAUNCH in a simulated run of two steps at its true size."),
    click.option(
        "--sweep",
        type=click.IntRange(1, _MOST_LAYOUTS),
        metavar="N",
        help="Run a LAUNCH so with each of its N best layouts, and rank them by what they take.",
    ),
    *_stack_options("--run or --sweep"),
)
