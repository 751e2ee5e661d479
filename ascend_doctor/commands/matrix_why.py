"""``ascend-doctor matrix why``: whether two parts go together, and the rows that bind them."""

import shlex
from collections.abc import Iterable, Iterator

import click

from ascend_doctor.commands.matrix import write
from ascend_doctor.commands.matrix_show import source_lines
from ascend_doctor.commands.options import flag
from ascend_doctor.commands.options.matrix import catalog, matrix_option
from ascend_doctor.findings import first_of
from ascend_doctor.language import say
from ascend_doctor.matrix.queries import Bond, choose, why

_MOST_LINES = 8
_VERSIONS_SHOWN = 3


@click.command("why")
@click.argument("component")
@click.argument("other")
@flag("-v", "--verbose", help="Every row, with its sources.")
@matrix_option
def command(component: str, other: str, verbose: bool, overlays: tuple[str, ...]) -> int:
    """Show the rows that bind COMPONENT and OTHER: components, or versions as ID==VERSION."""
    rows = catalog(overlays)
    parts = choose(rows, component), choose(rows, other)
    bonds = why(rows, *parts)
    for bond in bonds if verbose else ():
        line = f"{say(bond.kind)}: {bond.row}: {say(bond.text)}"
        write(line, *source_lines(bond.sources, indent="    "))
    if not bonds:
        write(say(f"no row binds {component} and {other}"))
    elif not verbose:
        lines = [_verdict(bonds)] if all(part.version for part in parts) else []
        lines += _brief(sorted(bonds, key=lambda bond: bond.fit != "outside"))
        named = shlex.join((component, other))
        write(*lines[:_MOST_LINES], f"{say('Next')}: ascend-doctor matrix why {named} -v")
    return 0


def _verdict(bonds: Iterable[Bond]) -> str:
    against = [bond for bond in bonds if bond.fit == "outside" or bond.kind == "conflicts"]
    if any(bond.need and bond.need.hard for bond in against):
        return say("no: they exclude each other")
    return say("no document has both, and nothing refuses them") if against else say("yes")


def _brief(bonds: Iterable[Bond]) -> Iterator[str]:
    """A line each; versions that are bound alike share one."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    for bond in bonds:
        name, _, version = bond.row.partition(" ")
        alike.setdefault((bond.kind, name, bond.text), []).append(version)
    for (kind, name, text), versions in alike.items():
        shown = f"{name} {first_of(versions, _VERSIONS_SHOWN)}".strip()
        yield f"{say(kind)}: {shown}: {say(text)}"
