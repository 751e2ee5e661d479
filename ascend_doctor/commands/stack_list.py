"""``ascend-doctor stack list``: what a prefix keeps."""

import time
from collections.abc import Sequence

import click

from ascend_doctor.commands.options.format_option import shape_option
from ascend_doctor.commands.options.input_file import prefix_option
from ascend_doctor.errors import DataError
from ascend_doctor.findings import show_bytes
from ascend_doctor.language import say
from ascend_doctor.provision.kept import KeptStack, KeptWheel, list_stacks, list_wheels
from ascend_doctor.provision.lock import Prefix
from ascend_doctor.render.columns import pad
from ascend_doctor.render.formats.json import pretty
from ascend_doctor.render.plain import one_line

_DAY = 86400


@click.command("list")
@prefix_option
@shape_option
def command(*, prefix: str | None, shape: str) -> int:
    """List the stacks of a prefix, youngest first, and the wheels that they share."""
    whole = Prefix.of(prefix)
    if prefix and not whole.root.is_dir():
        raise DataError(f"{whole.root}: no such folder")
    stacks = list_stacks(whole)
    wheels = list_wheels(whole, stacks)
    if shape == "json":
        click.echo(pretty(_content(whole, stacks, wheels)), nl=False)
        return 0
    for stack in stacks:
        mark = "*" if stack.in_use else " "
        state = say(stack.lock.proof_summary if stack.lock else "setup has not ended")
        age = pad(say(_age(stack.changed)), 11)
        line = f"{mark} {stack.id:<28} {show_bytes(stack.size):>9}  {age} {state}"
        click.echo(one_line(line))
    if not stacks:
        click.echo(one_line(say(f"no stack in {whole.root}; ascend-doctor setup builds one")))
    unused = [wheel for wheel in wheels if not wheel.stacks]
    sizes = (sum(wheel.size for wheel in group) for group in (wheels, unused))
    size, size_unused = map(show_bytes, sizes)
    text = say(f"{len(wheels)} wheels, {size}; {len(unused)} of no stack, {size_unused}")
    click.echo(f"  {text}")
    if any(stack.in_use for stack in stacks):
        click.echo(f"  * {say('in use')}", err=True)
    return 0


def _content(
    prefix: Prefix, stacks: Sequence[KeptStack], wheels: Sequence[KeptWheel]
) -> dict[str, object]:
    return {
        "schema": 1,
        "prefix": str(prefix.root),
        "stacks": [
            {
                "id": stack.id,
                "in_use": stack.in_use,
                "bytes": stack.size,
                "created_at": stack.lock.created_at if stack.lock else None,
                "proof": stack.lock.proof if stack.lock else None,
            }
            for stack in stacks
        ],
        "wheels": [
            {"file": wheel.file.name, "bytes": wheel.size, "stacks": wheel.stacks}
            for wheel in wheels
        ],
    }


def _age(moment: float) -> str:
    days = int((time.time() - moment) // _DAY)
    return "today" if days < 1 else f"{days} day{'s' * (days != 1)} old"
