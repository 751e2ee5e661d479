"""``ascend-doctor stack use``: puts a stack that was built before in use again."""

import click

from ascend_doctor.commands.options.input_file import prefix_option
from ascend_doctor.language import say
from ascend_doctor.provision.kept import use_stack
from ascend_doctor.provision.lock import Prefix
from ascend_doctor.render.plain import one_line


@click.command("use")
@click.argument("name", metavar="ID")
@prefix_option
def command(*, name: str, prefix: str | None) -> int:
    """Put the stack ID in use, as `stack list` names it.

    Shells that sourced the variables of another stack keep those; source `env` again.
    """
    lock = use_stack(Prefix.of(prefix), name)
    click.echo(one_line(say(f"in use: {name}; proof: {lock.proof_summary}")))
    return 0
