"""``ascend-doctor merge``: one verdict on the reports of many machines."""

from __future__ import annotations

import os
import time
from pathlib import Path

import click

from ascend_doctor.commands.catalog import catalog, matrix_option
from ascend_doctor.commands.output import Output, output_options, write_whole
from ascend_doctor.errors import DataError
from ascend_doctor.fleet.hosts import parse_hosts
from ascend_doctor.fleet.merge import merge, report_files
from ascend_doctor.fleet.verdict import judge
from ascend_doctor.redact import Redactor
from ascend_doctor.report import Fleet

_HOSTS_LIMIT = 64 << 20


@click.command("merge")
@click.argument("paths", nargs=-1, required=True, metavar="DIR|FILE...")
@click.option("--expect", metavar="HOSTFILE", help="Nodes that have to be there, one a line.")
@click.option(
    "--lists",
    metavar="DIR",
    help="Write passing_nodes.txt, failing_nodes.txt and unknown_nodes.txt there.",
)
@matrix_option
@output_options
def command(
    *,
    paths: tuple[str, ...],
    expect: str | None,
    lists: str | None,
    overlays: tuple[str, ...],
    output: Output,
) -> int:
    """Give one verdict on the reports that `check --format json` wrote on many machines.

    Names missing nodes, what differs between nodes, addresses given twice and measurements that
    stand out. A redacted report is called by its file; addresses are compared with --no-redact.
    """
    start = time.monotonic()
    for path in paths:
        if not os.path.exists(path):
            raise DataError(f"{path}: no such file or folder; name the reports of the nodes")
    expected = parse_hosts(_hosts(expect), name=expect) if expect else None
    if lists and not os.path.isdir(lists):
        raise click.UsageError(f"--lists {lists}: there is no such folder")
    merged = merge(report_files(paths), catalog(overlays).distributions)
    if not merged.nodes and not merged.unreadable:
        raise DataError(f"{paths[0]}: holds no *.json report")
    report = judge(
        merged, expected=expected, fail_on=output.fail_on, seconds=time.monotonic() - start
    )
    if lists and report.fleet is not None:
        _write_lists(Path(lists), report.fleet)
    output.write(report, Redactor())
    return report.verdict.exit_code


def _hosts(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(_HOSTS_LIMIT)
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from error


def _write_lists(folder: Path, fleet: Fleet) -> None:
    """One name a line, as ``srun --exclude`` and host files take it."""
    for name, nodes in (
        ("passing_nodes.txt", fleet.passing),
        ("failing_nodes.txt", fleet.failing),
        ("unknown_nodes.txt", (*fleet.untold, *fleet.missing)),
    ):
        write_whole(str(folder / name), "".join(f"{one}\n" for one in map(_plain, nodes)))


def _plain(name: str) -> str:
    """A name out of a file reaches a scheduler's command line, so it is only a name."""
    return "".join(
        one if one.isascii() and (one.isalnum() or one in "._-") else "_" for one in name
    )
