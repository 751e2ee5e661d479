"""``ascend-doctor matrix``: the versions that go together, why, and a stack that fits."""

import click

from ascend_doctor.commands.lazy import LazyGroup
from ascend_doctor.render.plain import one_line

COMMANDS = {
    "solve": "Find the versions for a framework, a Megatron-LM or a package.",
    "list": "List the stacks, sets and components.",
    "show": "Show a stack, a set, a component or a version, with its sources.",
    "why": "Show the rows that bind two components or versions.",
    "upgrade": "Show what another CANN, Megatron-LM or torch_npu changes in a stack.",
    "lint": "Check every matrix file.",
    "refresh": "Propose rows for what repositories and indexes have by now.",
}

command = LazyGroup(
    name="matrix",
    sections={"Commands": COMMANDS},
    modules="ascend_doctor.commands.matrix_",
    help="Show which versions go together and why, and find a stack that fits.",
)


def write(*rows: str) -> None:
    """Write lines of an answer: no row's text reaches the terminal as it is."""
    for row in rows:
        for line in row.rstrip("\n").split("\n"):
            click.echo(one_line(line))
