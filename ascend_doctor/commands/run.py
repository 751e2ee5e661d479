"""``ascend-doctor run``: a launch behind a check; its log is diagnosed where it fails."""

import os
import shutil

import click
from msgspec.structs import replace

from ascend_doctor.commands.arming import watchdog_variables
from ascend_doctor.commands.check import Wish, make_report
from ascend_doctor.commands.kept_launch import (
    diagnose_kept,
    explain_missing_program,
    hold_log,
    ranks_failed,
    run_kept,
)
from ascend_doctor.commands.options import defaulted, flag
from ascend_doctor.commands.options.check_filter import selection_options
from ascend_doctor.commands.options.expectations import choose_expectations, expect_option
from ascend_doctor.commands.options.launch import patience_option, stall_option, timeout_option
from ascend_doctor.commands.options.output import Output, output_options
from ascend_doctor.commands.options.run_verdict import RunVerdict, run_verdict_options
from ascend_doctor.commands.options.target import Examination, add_target_options
from ascend_doctor.commands.short_help import ShortHelpCommand
from ascend_doctor.commands.stall_watch import arm
from ascend_doctor.exits import EXIT_FINDINGS, EXIT_INTERRUPTED
from ascend_doctor.findings import Level
from ascend_doctor.judging.expectations import CHECKS, Expectation
from ascend_doctor.machine import watchdog
from ascend_doctor.render.notices import notice
from ascend_doctor.report import Report

_USUAL = "expect timeout anyway log exit_verdict history nodes stall"


@click.command("run", cls=ShortHelpCommand, usual=_USUAL)
@add_target_options
@expect_option
@selection_options
@timeout_option(
    "Seconds for the check; the launch has as long as it takes.", default=60, whole=True
)
@flag("--anyway", help="Start it even where the check finds errors.")
@defaulted(
    "--log",
    metavar="FILE",
    default="ascend-doctor-run.log",
    help="Where what the launch prints is kept; an older one is replaced.",
)
@patience_option()
@run_verdict_options
@stall_option
@output_options
@click.argument("launch", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
def command(
    *,
    examination: Examination,
    launch: tuple[str, ...],
    expect: tuple[Expectation, ...],
    output: Output,
    log: str,
    asked: RunVerdict,
    stall: float,
    anyway: bool,
    timeout: float,
    only: tuple[str, ...],
    skip: tuple[str, ...],
) -> int:
    """Check this machine and the launch (level 0), run it, and diagnose its log where it fails.

    The check is silent where all is well. What the launch prints is passed on, and kept without
    the secrets in it. A torchrun, swift or megatron of one node is given TORCH_HCCL_DESYNC_DEBUG=1,
    unless you set it, so that its log can say which rank a hang began with.

    If no rank prints anything or starts a collective for --stall seconds, the launch goes on.
    Standard error names the ranks that wait, the collective, and the ranks that did not join it.
    Stacks and flight recorders of this machine's ranks go to a folder beside the log.

    The exit code is that of the launch, or 128 and the number of the signal that ended it. A launch
    that was not started ends with the check's code: 1 for errors, 3 for an inconclusive check.
    With --exit-verdict a failed launch ends with a scheduler's verdict: 75 restart, 69 exclude this
    node, 78 stop. Without a verdict it keeps its own code.
    """
    if shutil.which(launch[0]) is None:
        raise explain_missing_program(launch[0])
    # A check without findings would be noise in the job's output.
    gate = replace(output, silent=True, quiet=True)
    wish = Wish(
        level=0,
        device="auto",
        nproc=None,
        timeout=timeout,
        launch=launch,
        expected=choose_expectations(output.expected, expect, examination.catalog),
    )
    report = make_report(examination, gate, wish, only=only, skip=skip)
    watchdog.limit(None)
    if report.interrupted:
        return EXIT_INTERRUPTED
    if _is_kept_back(report) and not anyway:
        notice("not started; --anyway starts it in spite of this")
        return report.verdict.exit_code
    return _launch(launch, log, stall, asked)


def _launch(launch: tuple[str, ...], log: str, stall: float, asked: RunVerdict) -> int:
    log = hold_log(log)
    variables = watchdog_variables(launch, os.environ)
    for name, value in variables.items():
        notice(
            f"started with {name}={value}: if it hangs, its log says who did not join "
            f"({name}=0 before the command keeps it off)"
        )
    env = {**os.environ, **variables}
    watch = arm(log, stall, env)
    code = run_kept(launch, log, env, watch=watch)
    if watch:
        watch.close()
    if not (code or ranks_failed(log)):
        return code
    # A stall that passed does not explain a later end.
    gathered = str(watch.folder.parent) if watch and watch.is_stalled else None
    options = asked.diagnose_options(launch, os.environ)
    return asked.exit_code(code, diagnose_kept(log, code, options, gathered))


def _is_kept_back(report: Report) -> bool:
    return report.verdict.exit_code == EXIT_FINDINGS or any(
        finding.check in CHECKS and finding.level is Level.UNKNOWN for finding in report.findings
    )
