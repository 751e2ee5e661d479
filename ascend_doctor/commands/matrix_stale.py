"""``ascend-doctor matrix stale``: what is old in the matrix."""

import datetime as dt

import click

from ascend_doctor.commands.options.kinds import defaulted
from ascend_doctor.commands.options.matrix import catalog, matrix_option
from ascend_doctor.exits import EXIT_FINDINGS, EXIT_OK
from ascend_doctor.render.plain import one_line


@click.command("stale")
@defaulted("--days", type=click.IntRange(min=0), default=180, help="How old is stale.")
@matrix_option
def command(*, days: int, overlays: tuple[str, ...]) -> int:
    """List rows and facts whose sources were read long ago.

    \b
    Exit codes: 0 none; 1 some.
    """  # noqa: D301 - \b is click's mark for a block that is not to be rewrapped
    from ascend_doctor.upkeep.staleness import find_stale_rows  # noqa: PLC0415 - slow

    today = dt.datetime.now(dt.timezone.utc).date()
    old = [*find_stale_rows(catalog(overlays), today - dt.timedelta(days=days))]
    for row in old:
        click.echo(one_line(f"{row.read.isoformat()} {row.row}"))
    return EXIT_FINDINGS if old else EXIT_OK
