"""From the reports of many machines to the one that is shown, shared by the commands."""

import os
import re
import time
from pathlib import Path

import click
import msgspec

from ascend_doctor.commands.options.gather import gather_options
from ascend_doctor.commands.options.input_file import InputFile
from ascend_doctor.commands.options.matrix import catalog, matrix_option
from ascend_doctor.commands.options.output import Output, output_options
from ascend_doctor.diagnosis.attempts import modification_time
from ascend_doctor.errors import DataError
from ascend_doctor.fleet.hostlist import parse_hosts, plain
from ascend_doctor.machine.files import is_there, read_bytes, write_whole
from ascend_doctor.machine.parsing import JSON_BYTES
from ascend_doctor.redact import Redactor, ours
from ascend_doctor.report import EarlierMerge, Fleet, Report

# Names with a range or a comma, not a file's path.
_LIST = re.compile(r"(?=.*[,\[])[\w.,\[\]-]+")
# Names of a million nodes take a third of it.
_HOSTS_LIMIT = 64 << 20
_MOST_EARLIER = 100

expect_option = click.option(
    "--expect",
    metavar="HOSTFILE",
    type=InputFile(),
    help="Nodes that have to be there: a file with one a line, or n[0-3],m7 itself.",
)


class MergedOutputOptions(msgspec.Struct, frozen=True, kw_only=True):
    """``stack`` are the distributions of the matrix."""

    output: Output
    stack: frozenset[str]
    lists: str | None

    def write(self, report: Report) -> int:
        """Write the lists of nodes and every format; gives the exit code.

        Redacts addresses, home folders and secrets by default, not node names. A JSON report
        that it replaces is kept in the new one, as an earlier merge. Raises DataError.
        """
        if fleet := report.fleet:
            files = [file for name, file in self.output.targets if name == "json" and file]
            earlier = tuple(merge for file in files for merge in _earlier_merges(file))
            fleet = msgspec.structs.replace(fleet, earlier=earlier[:_MOST_EARLIER])
            report = msgspec.structs.replace(report, fleet=fleet)
        if self.lists and fleet:
            _write_lists(Path(self.lists), fleet)
        names = (*(node.name for node in fleet.nodes), *fleet.missing) if fleet else ()
        hidden = ours(visible=names)
        if self.output.redact:
            report = _redact(report, hidden)
        self.output.write(report, hidden)
        return report.verdict.exit_code


def _earlier_merges(file: str) -> tuple[EarlierMerge, ...]:
    """The merge that a file holds, and those before it; none if it is no merged report."""
    try:
        fleet = msgspec.json.decode(read_bytes(file, JSON_BYTES), type=Report).fleet
    except (OSError, DataError, ValueError):
        return ()
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(modification_time(file)))
    return (fleet.ends(at), *fleet.earlier) if fleet else ()


def _redact(report: Report, hidden: Redactor) -> Report:
    fleet = report.fleet and msgspec.structs.replace(
        report.fleet,
        drift=tuple(map(hidden.apply, report.fleet.drift)),
        unreadable=tuple(map(hidden.apply, report.fleet.unreadable)),
        pairs=report.fleet.pairs and hidden.apply(report.fleet.pairs),
    )
    findings = tuple(map(hidden.apply, report.findings))
    return msgspec.structs.replace(report, redacted=True, findings=findings, fleet=fleet)


def _gather(*, output: Output, overlays: tuple[str, ...], lists: str | None) -> MergedOutputOptions:
    if lists and not os.path.isdir(lists):
        raise click.UsageError(f"--lists {lists}: there is no such folder")
    return MergedOutputOptions(output=output, stack=catalog(overlays).distributions, lists=lists)


add_merged_options = gather_options(
    "merged_output",
    _gather,
    click.option(
        "--lists",
        metavar="DIR",
        help="Write passing_nodes.txt, failing_nodes.txt and unknown_nodes.txt there.",
    ),
    matrix_option,
    output_options,
)


def read_hosts(path: str) -> tuple[str, ...]:
    """The nodes of a host file, or of a list such as ``n[0-3],m7``. Raises DataError."""
    if not is_there(path) and _LIST.fullmatch(path):
        return parse_hosts(path, name=path)
    return parse_hosts(read_bytes(path, _HOSTS_LIMIT).decode("utf-8", "replace"), name=path)


def _write_lists(folder: Path, fleet: Fleet) -> None:
    """One name a line, as ``srun --exclude`` and host files take it."""
    for name, nodes in (
        ("passing_nodes.txt", fleet.passing),
        ("failing_nodes.txt", fleet.failing),
        ("unknown_nodes.txt", (*fleet.untold, *fleet.missing)),
    ):
        write_whole(str(folder / name), "".join(f"{name}\n" for name in map(plain, nodes)))
