"""``ascend-doctor snapshot``: the facts alone."""

import click
import msgspec

from ascend_doctor.commands.options.output import (
    file_option,
    needs_terminal,
    put,
    redact_option,
    redacts,
    show_hidden,
    show_redacted_option,
)
from ascend_doctor.commands.options.target import Examination, add_target_options
from ascend_doctor.render.formats.json import pretty


@click.command("snapshot")
@add_target_options
@file_option("File instead of standard output.")
@redact_option
@show_redacted_option
def command(
    examination: Examination, file: str | None, *, redact: bool | None, show_redacted: bool
) -> int:
    """Write the facts about this machine as JSON, redacted unless told otherwise.

    The file can be judged on any machine with `ascend-doctor judge FILE`.
    """
    needs_terminal(show_redacted=show_redacted)
    facts, hidden = examination.collect()
    if redacts(redact, shown=False):
        facts = msgspec.structs.replace(hidden.apply(facts), redacted=True)
    else:
        facts = hidden.without_secrets(facts)
    text = pretty(facts)
    put(file, text)
    if show_redacted:
        show_hidden(hidden)
    return 0
