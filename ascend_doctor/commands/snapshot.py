"""``ascend-doctor snapshot``: the facts alone."""

from __future__ import annotations

import click
import msgspec

from ascend_doctor.commands.examination import Examination, examined_options
from ascend_doctor.commands.output import no_dash, redact_option, write_whole
from ascend_doctor.render.json import pretty


@click.command("snapshot")
@examined_options
@click.option(
    "-o",
    "--output",
    "file",
    metavar="FILE",
    callback=no_dash,
    help="File instead of standard output.",
)
@redact_option
def command(examination: Examination, file: str | None, *, redact: bool) -> int:
    """Write the facts about this machine as JSON, redacted unless told otherwise.

    The file can be judged on any machine with `ascend-doctor judge FILE`.
    """
    facts, hidden = examination.collect()
    if redact:
        facts = msgspec.structs.replace(hidden.apply(facts), redacted=True)
    text = pretty(facts)
    if file is None:
        click.echo(text, nl=False)
    else:
        write_whole(file, text)
    return 0
