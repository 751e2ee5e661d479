"""What a command says of itself, on standard error."""

import click

from ascend_doctor.language import say
from ascend_doctor.render.plain import one_line


def notice(text: str) -> None:
    click.echo(f"ascend-doctor: {one_line(say(text))}", err=True)
