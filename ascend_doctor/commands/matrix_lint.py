"""``ascend-doctor matrix lint``: faults of the matrix itself."""

import click

from ascend_doctor.commands.matrix import write
from ascend_doctor.commands.options.matrix import catalog, matrix_option
from ascend_doctor.exits import EXIT_FINDINGS
from ascend_doctor.findings import quantity
from ascend_doctor.language import say
from ascend_doctor.matrix.lint import lint


@click.command("lint")
@matrix_option
def command(overlays: tuple[str, ...]) -> int:
    """Check every matrix file: shape, references, ranges, cycles, sources, contradictions."""
    problems = lint(catalog(overlays))
    for problem in problems:
        write(str(problem))
    count = quantity(len(problems), "problem")
    click.echo(say(f"{count} in the matrix"), err=True)
    return EXIT_FINDINGS if problems else 0
