"""``ascend-doctor stack export``: a lock in the formats of other tools."""

from __future__ import annotations

import functools
from pathlib import Path

import click

from ascend_doctor.commands.options.input_file import InputFile
from ascend_doctor.commands.options.prefix import prefix_option
from ascend_doctor.errors import DataError
from ascend_doctor.machine.files import write_whole
from ascend_doctor.machine.kinds import LOCK
from ascend_doctor.provision import lock as locks
from ascend_doctor.provision.export.pylock import render_pylock
from ascend_doctor.provision.export.requirements import render_requirements
from ascend_doctor.provision.lock import Prefix, Wheel
from ascend_doctor.provision.wheels import wheel_path

FORMATS = ("requirements", "pylock")


@click.command("export")
@click.option("--format", "shape", type=click.Choice(FORMATS), required=True, help="What to write.")
@click.option(
    "--lock",
    metavar="FILE",
    type=InputFile(LOCK),
    help="The lock, or that of a bundle.  [default: of the stack in use]",
)
@prefix_option
@click.option("-o", "--output", metavar="FILE", help="Write it here.  [default: standard output]")
def command(*, shape: str, lock: str | None, prefix: str | None, output: str | None) -> int:
    """Print the lock of a stack for pip and uv.

    pylock.toml names the wheel files that the prefix or the bundle keeps, relative to itself, so
    that it needs no network: write it there with -o.
    """
    file = _lock_file(lock, prefix)
    whole = locks.read(file)
    file_of = functools.partial(_find_wheel, file, prefix)
    if shape == "requirements":
        text = render_requirements(whole, file_of)
    else:
        # ``..`` of a relative path goes up from where a link leads, as that of the stack in use.
        folder = Path(output).parent.resolve() if output else Path.cwd()
        text = render_pylock(whole, file_of, folder)
    if output:
        write_whole(output, text)
    else:
        click.echo(text, nl=False)
    return 0


def _lock_file(named: str | None, prefix: str | None) -> Path:
    if named:
        path = Path(named).absolute()
        return path / locks.FILE if path.is_dir() else path
    folder = locks.stack_in_use(prefix)
    if folder is None:
        raise DataError("no stack is in use; name a lock with --lock")
    return folder / locks.FILE


def _find_wheel(lock: Path, prefix: str | None, wheel: Wheel) -> Path:
    """The file of a wheel in the bundle that the lock lies in, or in the prefix.

    Raises DataError where neither has it.
    """
    stack = lock.parent
    # A lock that lies in a prefix has its wheels there, whatever the user's own prefix is.
    own = Prefix(stack.parent.parent) if stack.parent.name == "stacks" else Prefix.of(prefix)
    for file in (stack / "wheels" / wheel.file, wheel_path(own, wheel)):
        if file.is_file():
            return file
    raise DataError(
        f"{wheel.file} is neither beside {lock} nor in {own.root}; "
        f"ascend-doctor setup --locked --lock {lock} brings it"
    )
