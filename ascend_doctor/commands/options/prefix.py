"""The option that names the folder that stacks are built in."""

import click

from ascend_doctor.commands.options.input_file import InputFile

prefix_option = click.option(
    "--prefix",
    metavar="DIR",
    type=InputFile(),
    help="Where stacks are built.  [default: ASCEND_DOCTOR_PREFIX, or the user's data folder]",
)
