"""``ascend-doctor matrix list``: what the matrix has."""

import click

from ascend_doctor.commands.matrix import write
from ascend_doctor.commands.options.format_option import shape_option
from ascend_doctor.commands.options.matrix import catalog, matrix_option
from ascend_doctor.language import say
from ascend_doctor.render.columns import pad
from ascend_doctor.render.formats.json import pretty

_WIDTH = 90  # of the versions of a component


@click.command("list")
@matrix_option
@shape_option
def command(overlays: tuple[str, ...], shape: str) -> int:
    """List the stacks with their evidence, the sets that somebody ran, and the components."""
    rows = catalog(overlays)
    if shape == "json":
        components = {
            component.id: [row.version for row in component.releases]
            for component in rows.components
        }
        standings = {stack.id: rows.evidence(stack.id).standing for stack in rows.stacks}
        sets = [row.id for row in rows.sets]
        content = {"stacks": rows.stacks, "evidence": standings, "sets": sets}
        content["components"] = components
        write(pretty({"schema": 1, **content}))
        return 0
    write(say("Stacks"))
    for stack in rows.stacks:
        standing = rows.evidence(stack.id).standing
        status = "" if stack.status == "documented" else f"  ({say(stack.status)})"
        write(f"  {stack.id:<28} {pad(say(standing), 13)} {say(stack.title)}{status}")
    write("", say("Sets"))
    for row in rows.sets:
        write(f"  {row.id:<40} {say(row.title)}")
    write("", say("Components"))
    for component in rows.components:
        versions = ", ".join(row.version for row in component.releases)
        versions = versions or say("not listed; bounds only")
        if len(versions) > _WIDTH:
            versions = f"{versions[: _WIDTH - 3].rstrip(', ')} …"
        write(f"  {component.id:<22} {versions}")
    return 0
