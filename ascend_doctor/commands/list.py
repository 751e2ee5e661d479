"""``ascend-doctor list``: every check and probe."""

from __future__ import annotations

import click
import msgspec

from ascend_doctor.checks import every


@click.command("list")
@click.option("--format", "shape", type=click.Choice(["text", "json"]), default="text")
def command(shape: str) -> int:
    """List every check and probe with its level and the property that should hold."""
    known = every()
    if shape == "json":
        rows = [
            {"id": one.id, "level": one.level, "title": one.title, "probe": one.probe or None}
            for one in known
        ]
        listed = msgspec.json.encode({"schema": 1, "checks": rows})
        click.echo(msgspec.json.format(listed, indent=2).decode())
        return 0
    width = max(len(one.id) for one in known)
    for one in known:
        click.echo(f"{one.level}  {one.id:<{width}}  {one.title}")
    return 0
