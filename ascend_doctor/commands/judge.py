"""``ascend-doctor judge``: a verdict on saved facts."""

import os
import time

import click
import msgspec

from ascend_doctor.commands.options.check_filter import choose, selection_options
from ascend_doctor.commands.options.expectations import choose_expectations, expect_option
from ascend_doctor.commands.options.input_file import InputFile
from ascend_doctor.commands.options.matrix import catalog, matrix_option
from ascend_doctor.commands.options.output import Output, output_options
from ascend_doctor.commands.short_help import ShortHelpCommand
from ascend_doctor.errors import DataError
from ascend_doctor.facts import SCHEMA, Snapshot
from ascend_doctor.judging.expectations import Expectation
from ascend_doctor.judging.judge import Case
from ascend_doctor.machine.kinds import REPORT, REPORT_ARCHIVE, SNAPSHOT
from ascend_doctor.machine.parsing import JSON_BYTES, json_of
from ascend_doctor.machine.report_archive import read_report_bytes
from ascend_doctor.redact import local_key, redactor
from ascend_doctor.report import LEVELS, LevelRun, assemble

_USUAL = "expect only skip formats files fail_on verbose"


@click.command("judge", cls=ShortHelpCommand, usual=_USUAL)
@click.argument("snapshot", metavar="SNAPSHOT", type=InputFile(REPORT, SNAPSHOT, REPORT_ARCHIVE))
@matrix_option
@expect_option
@selection_options
@output_options
def command(
    *,
    snapshot: str,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    overlays: tuple[str, ...],
    expect: tuple[Expectation, ...],
    output: Output,
) -> int:
    """Judge a saved SNAPSHOT, or the one inside a JSON report or archive, on any machine.

    Gives the verdict that `check -l 0` gave where the snapshot was taken.
    """
    start = time.monotonic()
    facts = read_snapshot(snapshot)
    matrix = catalog(overlays)
    expectations = choose_expectations(output.expected, expect, matrix)
    case = Case(facts=facts, catalog=matrix, expected=expectations)
    level = 3 if facts.probes else 0
    report = assemble(
        case,
        choose(only, skip, level=level, expected=expectations),
        levels=tuple(LevelRun(level=n, adds=LEVELS[n]) for n in range(level + 1)),
        fail_on=output.fail_on,
        seconds=time.monotonic() - start,
        acknowledged=output.acknowledged,
    )
    output.write(report, redactor(facts, home="", key=local_key()))
    return report.verdict.exit_code


def read_snapshot(path: str) -> Snapshot:
    """A file of ``snapshot``, ``check --format json``, ``report``. Raises DataError with remedy."""
    if os.path.isdir(path):
        raise DataError(f"{path}: a folder, not a file; `ascend-doctor merge` takes folders")
    try:
        loaded = json_of(read_report_bytes(path, JSON_BYTES), path)
    except DataError as error:
        raise DataError(f"{error}; `ascend-doctor snapshot -o FILE` writes one") from error
    if isinstance(loaded, dict) and "snapshot" in loaded:
        loaded = loaded["snapshot"]
    schema = loaded.get("schema") if isinstance(loaded, dict) else None
    if isinstance(schema, int) and schema > SCHEMA:
        raise DataError(
            f"{path}: schema {schema} is newer than this doctor's {SCHEMA};"
            " judge it with a newer ascend-doctor"
        )
    if schema != SCHEMA:
        raise DataError(f"{path}: not a snapshot; make one with `ascend-doctor snapshot`")
    try:
        return msgspec.convert(loaded, Snapshot)
    except (msgspec.ValidationError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: damaged ({error}); take the snapshot again") from error
