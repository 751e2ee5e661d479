"""``ascend-doctor matrix why``: the rows that bind two parts."""

import click

from ascend_doctor.commands.matrix import write
from ascend_doctor.commands.matrix_show import source_lines
from ascend_doctor.commands.options.matrix import catalog, matrix_option
from ascend_doctor.language import say
from ascend_doctor.matrix.queries import choose, why


@click.command("why")
@click.argument("component")
@click.argument("other")
@matrix_option
def command(component: str, other: str, overlays: tuple[str, ...]) -> int:
    """Show the rows that bind COMPONENT and OTHER: components, or versions as ID==VERSION."""
    rows = catalog(overlays)
    bonds = why(rows, choose(rows, component), choose(rows, other))
    for bond in bonds:
        line = f"{say(bond.kind)}: {bond.row}: {say(bond.text)}"
        write(line, *source_lines(bond.sources, indent="    "))
    if not bonds:
        write(say(f"no row binds {component} and {other}"))
    return 0
