"""``ascend-doctor explain``: the manual of one check or probe, offline."""

from __future__ import annotations

import inspect

import click

from ascend_doctor.commands.selection import choose
from ascend_doctor.report import LEVELS


@click.command("explain")
@click.argument("identity", metavar="ID")
def command(identity: str) -> int:
    """Say what the check or probe ID looks at, why it matters and what to do."""
    (one,) = choose((identity,), (), level=len(LEVELS))
    click.echo(f"{one.id}: {one.title}")
    click.echo(f"level {one.level}: {LEVELS[one.level]}")
    click.echo()
    click.echo(inspect.cleandoc(one.explain))
    return 0
