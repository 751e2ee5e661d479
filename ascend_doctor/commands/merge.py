"""``ascend-doctor merge``: one verdict on the reports of many machines."""

import os
import time

import click

from ascend_doctor.commands.options import flag
from ascend_doctor.commands.options.input_file import InputFile
from ascend_doctor.commands.options.merged_output import (
    MergedOutputOptions,
    add_merged_options,
    expect_option,
    read_hosts,
)
from ascend_doctor.commands.short_help import ShortHelpCommand
from ascend_doctor.errors import DataError
from ascend_doctor.fleet.merge import merge, report_files
from ascend_doctor.fleet.merged_report import judge
from ascend_doctor.machine.files import check_folder, is_there
from ascend_doctor.machine.kinds import REPORT, REPORT_ARCHIVE

_USUAL = "expect by_file lists formats files fail_on verbose"


@click.command("merge", cls=ShortHelpCommand, usual=_USUAL)
@click.argument(
    "paths", nargs=-1, required=True, metavar="DIR|FILE...", type=InputFile(REPORT, REPORT_ARCHIVE)
)
@expect_option
@flag(
    "--by-file", help="Call every node as its file is called, not by the host name in the report."
)
@add_merged_options
def command(
    *, paths: tuple[str, ...], expect: str | None, by_file: bool, merged_output: MergedOutputOptions
) -> int:
    """Give one verdict on the reports that `check --format json` wrote on many machines.

    Names missing nodes, what differs between nodes, addresses given twice and measurements that
    stand out. A redacted report is called by its file; addresses are compared with --no-redact.
    """
    start = time.monotonic()
    for path in paths:
        if not is_there(path):
            raise DataError(f"{path}: no such file or folder; name the reports of the nodes")
        if os.path.isdir(path):
            check_folder(path)
    expected = read_hosts(expect) if expect else None
    merged = merge(report_files(paths), merged_output.stack, by_file=by_file)
    if not merged.nodes and not merged.unreadable:
        report = os.path.join(paths[0], "$(hostname).json")
        raise DataError(
            f"{paths[0]}: holds no *.json report; type on every node: "
            f'ascend-doctor check --no-redact --format json -o "{report}"'
        )
    verdict = judge(
        merged,
        expected=expected,
        fail_on=merged_output.output.fail_on,
        seconds=time.monotonic() - start,
    )
    return merged_output.write(verdict)
