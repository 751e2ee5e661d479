"""``ascend-doctor help``: the help of a command."""

import click


@click.command("help")
@click.argument("names", metavar="[COMMAND...]", nargs=-1)
def command(names: tuple[str, ...]) -> int:
    """Show the help of COMMAND, as --help does."""
    shown = click.get_current_context().find_root()
    for name in names:
        group = shown.command
        if not isinstance(group, click.Group):
            raise click.UsageError(f"{shown.command_path} has no commands, so no {name!r}")
        _, inner, _ = group.resolve_command(shown, [name])
        shown = click.Context(inner or group, parent=shown, info_name=name)
    click.echo(shown.get_help())
    return 0
