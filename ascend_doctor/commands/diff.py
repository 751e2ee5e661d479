"""``ascend-doctor diff``: in what two machines differ."""

from itertools import groupby

import click
import msgspec

from ascend_doctor.commands.judge import read_snapshot
from ascend_doctor.commands.options.format_option import shape_option
from ascend_doctor.commands.options.input_file import InputFile
from ascend_doctor.commands.options.matrix import catalog, matrix_option
from ascend_doctor.commands.options.output import redact_option, redacts
from ascend_doctor.comparison.differences import differences
from ascend_doctor.exits import EXIT_FINDINGS, EXIT_OK
from ascend_doctor.language import say
from ascend_doctor.machine.kinds import REPORT, REPORT_ARCHIVE, SNAPSHOT
from ascend_doctor.redact import Redactor, local_key, redactor
from ascend_doctor.render.formats.json import pretty
from ascend_doctor.render.plain import one_line


@click.command("diff")
@click.argument("left", metavar="A", type=InputFile(REPORT, SNAPSHOT, REPORT_ARCHIVE))
@click.argument("right", metavar="B", type=InputFile(REPORT, SNAPSHOT, REPORT_ARCHIVE))
@shape_option
@matrix_option
@redact_option
def command(
    *, left: str, right: str, shape: str, overlays: tuple[str, ...], redact: bool | None
) -> int:
    """Say in what two snapshots or JSON reports differ, what matters most first.

    Names, addresses, times and load are not compared. Exit code 1 where something differs.
    """
    facts = [read_snapshot(path) for path in (left, right)]
    drifts = differences(facts[0], facts[1], catalog(overlays).distributions)
    if redacts(redact, shown=shape == "text"):
        for each in facts:
            drifts = redactor(each, home="", key=local_key()).apply(drifts)
    else:
        drifts = Redactor().without_secrets(drifts)
    if shape == "json":
        rows = msgspec.to_builtins(drifts)
        click.echo(pretty({"schema": 1, "differences": rows}), nl=False, color=True)
    else:
        for group, rows in groupby(drifts, key=lambda difference: difference.group):
            click.echo(f"{say(group)}:")
            for row in rows:
                line = f"  {say(row.setting)}: {row.left} -> {row.right}"
                click.echo(one_line(line))
        if not drifts:
            click.echo(say("no difference in what is compared"))
    return EXIT_FINDINGS if drifts else EXIT_OK
