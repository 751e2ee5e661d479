"""``ascend-doctor explain``: the manual of one check, probe or known failure, offline."""

from __future__ import annotations

import inspect

import click

from ascend_doctor.commands.options.check_filter import choose
from ascend_doctor.commands.options.matrix import catalog, matrix_option
from ascend_doctor.fleet.explain import TOPICS
from ascend_doctor.matrix.schema import KnownFailure
from ascend_doctor.report import LEVELS


@click.command("explain")
@click.argument("identity", metavar="ID")
@matrix_option
def command(identity: str, overlays: tuple[str, ...]) -> int:
    """Say what the check, probe or known failure ID is about, why it matters and what to do."""
    failure = catalog(overlays).failures.get(identity)
    if failure is not None:
        _explain(failure)
        return 0
    if topic := TOPICS.get(identity):
        click.echo(f"{identity}: {topic.title}")
        click.echo("in merged reports")
        click.echo()
        click.echo(topic.explain)
        return 0
    (check,) = choose((identity,), (), level=len(LEVELS))
    click.echo(f"{check.id}: {check.title}")
    click.echo(f"level {check.level}: {LEVELS[check.level]}")
    click.echo()
    click.echo(inspect.cleandoc(check.explain))
    return 0


def _explain(failure: KnownFailure) -> None:
    parts = {
        f"{failure.severity}, found in logs by": "\n".join(failure.matches),
        "For example": failure.example,
        "Why": failure.cause,
        "What to do": failure.fix,
        "Affected": failure.affected,
        "Before a run": failure.before,
        "Checks that look for it": " ".join(failure.caught_by),
        "Sources": "\n".join(failure.sources),
    }
    click.echo(f"{failure.id}: {failure.title}")
    for title, text in parts.items():
        if text:
            click.echo(f"\n{title}:\n{inspect.cleandoc(text)}")
