"""``ascend-doctor stack remove``: takes away stacks and wheels that are not in use."""

import click

from ascend_doctor.commands.options import flag
from ascend_doctor.commands.options.input_file import prefix_option
from ascend_doctor.findings import show_bytes
from ascend_doctor.language import say
from ascend_doctor.provision.kept import list_stacks, remove_stacks, remove_unused_wheels
from ascend_doctor.provision.lock import Prefix
from ascend_doctor.render.plain import one_line


@click.command("remove")
@click.argument("names", metavar="[ID]...", nargs=-1)
@flag("--wheels", help="Remove the wheels that no stack has, too.")
@prefix_option
def command(*, names: tuple[str, ...], wheels: bool, prefix: str | None) -> int:
    """Remove the stacks ID, as `stack list` names them; never the one in use.

    An environment of yours that a stack was installed into stays.
    """
    if not names and not wheels:
        raise click.UsageError("name the stacks to remove, or give --wheels")
    whole = Prefix.of(prefix)
    sizes = {stack.id: stack.size for stack in list_stacks(whole)}
    if names:
        remove_stacks(whole, tuple(dict.fromkeys(names)))
    for name in dict.fromkeys(names):
        click.echo(one_line(say(f"removed {name}, {show_bytes(sizes[name])}")))
    if wheels:
        unused = remove_unused_wheels(whole)
        size = show_bytes(sum(wheel.size for wheel in unused))
        click.echo(say(f"removed {len(unused)} wheels, {size}"))
    return 0
