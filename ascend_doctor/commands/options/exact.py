"""The options of `lint --exact`: which stack is asked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from ascend_doctor.commands.options.gather import gather_options
from ascend_doctor.commands.options.kinds import flag
from ascend_doctor.language import say
from ascend_doctor.machine.scratch import temporary
from ascend_doctor.render.plain import one_line

if TYPE_CHECKING:
    from ascend_doctor.linting.inputs import LintInput

_SECONDS, _SECONDS_OF_LAUNCH = 300.0, 30.0


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
        stack = rehearsal.choose_stack(self.prefix, None) if self.prefix else None
        prepared = rehearsal.prepare(stack, self.python, machine("a2-8"), ())
        text = say(f"imports the frameworks of {prepared.interpreter} with simulated NPUs")
        click.echo(f"ascend-doctor: {one_line(text)}", err=True)
        with temporary() as folder:
            python, env = prepared.interpreter, prepared.env
            seconds = _SECONDS + _SECONDS_OF_LAUNCH * len(parts)
            return ask(inputs, parts, python, env, Path(folder), seconds)


def _gather(*, exact: bool, python: str | None, prefix: str | None) -> ExactLint | None:
    if not exact and (python or prefix):
        raise click.UsageError("--python and --prefix need --exact")
    if exact and click.get_current_context().params["hook"]:
        raise click.UsageError("--hook runs nothing, and --exact does")
    return ExactLint(python=python, prefix=prefix) if exact else None


exact_options = gather_options(
    "exact",
    _gather,
    flag(
        "--exact",
        help="Ask the installed frameworks: their parsers and validation run, no training.",
    ),
    click.option(
        "--python",
        metavar="PATH",
        help="With --exact: interpreter of the stack.  [default: the active environment's]",
    ),
    click.option("--prefix", metavar="DIR", help="With --exact: a stack that setup built."),
)
