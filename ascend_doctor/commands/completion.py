"""``ascend-doctor completion``: what makes a shell complete commands, options and ids."""

import click
from click.shell_completion import get_completion_class

from ascend_doctor.commands.habits import COMPLETION


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> int:
    """Print what makes SHELL complete commands, options and ids.

    \b
    bash, zsh  source <(ascend-doctor completion bash)
    fish       ascend-doctor completion fish | source
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"click has no completion for {shell}")
    root = click.get_current_context().find_root().command
    script = kind(root, {}, "ascend-doctor", COMPLETION).source()
    # bash puts a blank behind a word, and a value belongs there.
    click.echo(script.replace("+=($value)", "+=($value); [[ $value != *= ]] || compopt -o nospace"))
    return 0
