"""The options of `lint --exact`: which stack is asked."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from ascend_doctor.language import say
from ascend_doctor.machine.scratch import temporary
from ascend_doctor.render.plain import one_line

if TYPE_CHECKING:
    from ascend_doctor.linting.inputs import LintInput

_SECONDS = 300.0


class ExactLint(msgspec.Struct, frozen=True, kw_only=True):
    """The stack whose frameworks are asked about launches."""

    python: str | None = None
    prefix: str | None = None

    def ask(self, inputs: Sequence[LintInput]) -> list[LintInput]:
        """Add the frameworks' answers. Raises DataError and DoctorError."""
        from ascend_doctor.commands import rehearsal  # noqa: PLC0415 - not without --exact
        from ascend_doctor.linting.exact import ask, mark_unasked, split_launches  # noqa: PLC0415
        from ascend_doctor.simulator import machine  # noqa: PLC0415

        parts = split_launches(inputs)
        if not parts:
            return [*map(mark_unasked, inputs)]
        stack = rehearsal.choose_stack(self.prefix, None) if self.prefix else None
        prepared = rehearsal.prepare(stack, self.python, machine("a2-8"), ())
        text = say(f"imports the frameworks of {prepared.interpreter} with simulated NPUs")
        click.echo(f"ascend-doctor: {one_line(text)}", err=True)
        with temporary() as folder:
            python, env = prepared.interpreter, prepared.env
            return ask(inputs, parts, python, env, Path(folder), _SECONDS)


def exact_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The function gets them as ``exact``, None if not requested."""

    @functools.wraps(command)
    def gather(*, exact: bool, python: str | None, prefix: str | None, **options: Any) -> Any:
        if not exact and (python or prefix):
            raise click.UsageError("--python and --prefix need --exact")
        if exact and options["hook"]:
            raise click.UsageError("--hook runs nothing, and --exact does")
        asked = ExactLint(python=python, prefix=prefix) if exact else None
        return command(exact=asked, **options)

    for option in _OPTIONS:
        option(gather)
    return gather


# The help lists the last first.
_OPTIONS = (
    click.option("--prefix", metavar="DIR", help="With --exact: a stack that setup built."),
    click.option(
        "--python",
        metavar="PATH",
        help="With --exact: interpreter of the stack.  [default: the active environment's]",
    ),
    click.option(
        "--exact",
        is_flag=True,
        help="Ask the installed frameworks: their parsers and validation run, no training.",
    ),
)
