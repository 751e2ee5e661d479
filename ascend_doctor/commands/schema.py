"""``ascend-doctor schema``: the published JSON Schemas."""

import json

import click

from ascend_doctor.render.formats.json import diagnosis_schema, schema


@click.command("schema")
@click.argument("of", type=click.Choice(["report", "diagnosis"]), default="report")
def command(of: str) -> int:
    """Print the JSON Schema of `--format json`. Within one schema number it only grows.

    That of a report, or of what `diagnose` says.
    """
    click.echo(json.dumps(diagnosis_schema() if of == "diagnosis" else schema(), indent=2))
    return 0
