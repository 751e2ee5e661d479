"""``ascend-doctor schema``: the published JSON Schemas."""

import json

import click

from ascend_doctor.diagnosis.result import Diagnosis
from ascend_doctor.render.formats.json import schema
from ascend_doctor.report import Report


@click.command("schema")
@click.argument("of", type=click.Choice(["report", "diagnosis"]), default="report")
def command(of: str) -> int:
    """Print the JSON Schema of `--format json`. Within one schema number it only grows.

    That of a report, or of what `diagnose` says.
    """
    click.echo(json.dumps(schema(Diagnosis if of == "diagnosis" else Report), indent=2))
    return 0
