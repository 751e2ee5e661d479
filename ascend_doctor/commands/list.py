"""``ascend-doctor list``: every check and probe."""

import click
import msgspec

from ascend_doctor.checks import all_checks
from ascend_doctor.commands.options.format_option import shape_option
from ascend_doctor.language import say


@click.command("list")
@shape_option
def command(shape: str) -> int:
    """List every check and probe with its level and the property that should hold."""
    known = all_checks()
    if shape == "json":
        rows = [
            {
                "id": check.id,
                "level": check.level,
                "title": check.title,
                "probe": check.probe or None,
            }
            for check in known
        ]
        listed = msgspec.json.encode({"schema": 1, "checks": rows})
        click.echo(msgspec.json.format(listed, indent=2).decode())
        return 0
    width = max(len(check.id) for check in known)
    for check in known:
        click.echo(f"{check.level}  {check.id:<{width}}  {say(check.title)}")
    return 0
