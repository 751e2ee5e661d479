"""Lines of an answer on stdout: no row's text reaches the terminal as it is."""

import click

from ascend_doctor.render.plain import one_line


def write(*rows: str) -> None:
    for row in rows:
        for line in row.rstrip("\n").split("\n"):
            click.echo(one_line(line))
