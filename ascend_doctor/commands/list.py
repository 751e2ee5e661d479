"""``ascend-doctor list``: every check and probe."""

import click

from ascend_doctor.checks import all_checks
from ascend_doctor.commands.options.format_option import shape_option
from ascend_doctor.language import say
from ascend_doctor.render.formats.json import pretty


@click.command("list")
@shape_option
def command(shape: str) -> int:
    """List every check and probe with its level and the property that should hold."""
    known = all_checks()
    if shape == "json":
        rows = [
            {"id": each.id, "level": each.level, "title": each.title, "probe": each.probe or None}
            for each in known
        ]
        click.echo(pretty({"schema": 1, "checks": rows}), nl=False)
        return 0
    width = max(len(check.id) for check in known)
    for check in known:
        click.echo(f"{check.level}  {check.id:<{width}}  {say(check.title)}")
    return 0
