"""The type of an argument or option that names a file of certain kinds."""

from typing import Any

import click

from ascend_doctor.machine.kinds import FileKind, refuse_other


class InputFile(click.Path):
    """A path; a file of another known kind is refused with the command that reads it."""

    def __init__(self, *kinds: FileKind) -> None:
        super().__init__()
        self.kinds = kinds

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Raises DataError."""
        refuse_other(str(value), *self.kinds)
        return super().convert(value, param, ctx)


prefix_option = click.option(
    "--prefix",
    metavar="DIR",
    type=InputFile(),
    help="Where stacks are built.  [default: ASCEND_DOCTOR_PREFIX, or the user's data folder]",
)
