"""``ascend-doctor schema``: the published JSON Schema."""

from __future__ import annotations

import json

import click

from ascend_doctor.render.json import schema


@click.command("schema")
def command() -> int:
    """Print the JSON Schema of `--format json`. Within one schema number it only grows."""
    click.echo(json.dumps(schema(), indent=2))
    return 0
