"""Which checks run: ``--only`` and ``--skip``."""

from collections.abc import Callable, Collection
from typing import Any, TypeVar

import click

from ascend_doctor.checks import all_checks, static_checks
from ascend_doctor.commands.options import repeated
from ascend_doctor.judging.expectations import Expectation
from ascend_doctor.judging.judge import Check

F = TypeVar("F", bound=Callable[..., Any])


def selection_options(command: F) -> F:
    """Add ``--only`` and ``--skip``; ``choose`` looks ids up."""
    for option in (
        repeated("--skip", metavar="ID", help="Leave a check out; repeatable."),
        repeated("--only", metavar="ID", help="Run only this; repeatable."),
    ):
        command = option(command)
    return command


def refuse_unknown(names: Collection[str]) -> None:
    """Raises UsageError for an unknown id."""
    ids = [check.id for check in all_checks()] if names else []
    for name in names:
        if name not in ids:
            import difflib

            close = difflib.get_close_matches(name, ids, n=1)
            hint = f"did you mean {close[0]}?" if close else "`ascend-doctor list` has them"
            raise click.UsageError(f"no check is called {name!r}; {hint}")


def choose(
    only: tuple[str, ...],
    skip: tuple[str, ...],
    *,
    level: int,
    expected: Collection[Expectation] = (),
) -> tuple[Check, ...]:
    """Checks to ``level`` or ``expected``. Raises UsageError: unknown id, skipped expectation."""
    named = (*only, *skip, *expected)
    known = all_checks() if level or named else static_checks()
    refuse_unknown((*only, *skip))
    needed = {expectation.check: expectation.key for expectation in expected}
    for name in skip:
        if name in needed:
            raise click.UsageError(
                f"--skip {name}: something is expected of {needed[name]}; change the expectation"
                + (", as --expect npus=0" if needed[name] == "npus" else "")
            )
    return tuple(
        check
        for check in known
        if check.id in needed
        or (check.level <= level and check.id not in skip and (not only or check.id in only))
    )
