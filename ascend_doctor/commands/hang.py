"""``ascend-doctor hang``: a job that hangs now, whatever started it."""

import os
import shlex
import sys
from pathlib import Path

import click

from ascend_doctor.commands.diagnose import conduct
from ascend_doctor.commands.options import defaulted
from ascend_doctor.commands.options.matrix import matrix_option
from ascend_doctor.commands.options.output import Output, output_options
from ascend_doctor.commands.options.verdict import VerdictOptions, verdict_options
from ascend_doctor.commands.running_job import Observer, RunningJob, belongs, find_jobs
from ascend_doctor.commands.short_help import ShortHelpCommand
from ascend_doctor.errors import DataError
from ascend_doctor.exits import EXIT_UNKNOWN
from ascend_doctor.findings import quantity, spans
from ascend_doctor.language import say
from ascend_doctor.machine import scratch
from ascend_doctor.machine.files import reason
from ascend_doctor.machine.private import private_folder
from ascend_doctor.machine.processes import find_spy
from ascend_doctor.progress import STEPS, TaskDisplay
from ascend_doctor.render.notices import notice
from ascend_doctor.render.plain import one_line

_USUAL = "pid slurm watch keep formats files redact verbose"


@click.command("hang", cls=ShortHelpCommand, usual=_USUAL)
@click.option("--pid", type=click.IntRange(2), metavar="P", help="A process of the job.")
@click.option("--slurm", metavar="ID", help="The job of that SLURM_JOB_ID.")
@defaulted(
    "--watch",
    type=click.FloatRange(0, 600),
    default=10,
    metavar="SECONDS",
    help="How long to look whether a rank moves; four times as long for one that computes.",
)
@click.option(
    "--keep",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the stacks, states and plogs; `diagnose` reads those of all nodes together.",
)
@verdict_options
@matrix_option
@output_options
def command(
    *,
    pid: int | None,
    slurm: str | None,
    watch: float,
    keep: Path | None,
    asked: VerdictOptions,
    overlays: tuple[str, ...],
    output: Output,
) -> int:
    """Show where each rank of a hanging job is, and which rank the others wait for.

    The job may be started by torchrun, Slurm, MPI or anything that sets RANK and WORLD_SIZE.
    py-spy reads the stacks from the memory of the ranks, which go on undisturbed. Without --pid
    and --slurm the only job of this machine is examined.

    \b
    Exit codes: 0 every rank moved, 1 a rank that the others wait for, 2 bad usage or no such job,
    3 could not tell.
    """
    asked.check_targets(output)
    job = _choose(find_jobs(), pid, slurm)
    observer = Observer(job)
    task = say(f"watching {quantity(len(job.ranks), 'rank')} for {watch:g} s")
    with TaskDisplay(STEPS, [task]) as display, display.run(task):
        passed = observer.watch(watch)
    if observer.has_ended:
        click.echo(say("The job ended while it was watched."))
        return 0
    _describe(observer)
    if observer.goes_on:
        click.echo(say(f"The job goes on: every rank moved within {passed:.0f} s."))
        return 0
    if keep is None:
        with scratch.temporary() as folder:
            return _judge(observer, Path(folder), asked, overlays, output)
    return _judge(observer, _make(keep), asked, overlays, output)


def _judge(
    observer: Observer,
    folder: Path,
    asked: VerdictOptions,
    overlays: tuple[str, ...],
    output: Output,
) -> int:
    observer.write(folder)
    observer.ask_recorders(folder)
    code = conduct((str(folder),), asked=asked, overlays=overlays, output=output)
    if code == EXIT_UNKNOWN and find_spy() is None:
        python, pid = shlex.quote(sys.executable), observer.job.ranks[0].pid
        again = f"{python} -m pip install py-spy && ascend-doctor hang --pid {pid}"
        notice(f"Type next: {again}")
    return code


def _make(keep: Path) -> Path:
    folder = keep / (one_line(os.uname().nodename).replace("/", "_").lstrip(".") or "host")
    try:
        private_folder(folder)
    except OSError as error:
        raise DataError(f"{folder}: {reason(error)}") from error
    if os.listdir(folder):
        raise DataError(f"{folder}: not empty; name another folder with --keep")
    return folder


def _choose(jobs: list[RunningJob], pid: int | None, slurm: str | None) -> RunningJob:
    if pid is not None:
        jobs = [job for job in jobs if belongs(job, pid)]
    if slurm is not None:
        jobs = [job for job in jobs if job.ranks[0].env.get("SLURM_JOB_ID") == slurm]
    if len(jobs) == 1:
        return jobs[0]
    if jobs:
        which = ", ".join(
            f"--pid {job.ranks[0].pid} ({quantity(len(job.ranks), 'rank')} of {job.world_size})"
            for job in jobs[:4]
        )
        raise DataError(f"{len(jobs)} jobs run here; choose one: {which}")
    if pid is not None:
        raise DataError(f"process {pid} is no rank of a job that this user may look at")
    named = f" of Slurm job {slurm}" if slurm is not None else ""
    raise DataError(
        f"no rank{named} runs here that this user may look at: no process with RANK and"
        " WORLD_SIZE in its environment; run as the user of the job, or as root"
    )


def _describe(observer: Observer) -> None:
    job = observer.job
    ranks = spans(rank.rank for rank in job.ranks)
    notice(f"ranks {ranks} of {job.world_size}, started by process {job.launcher}")
    for why, unread in observer.refusals.items():
        notice(f"no stack of rank {spans(unread)}: {why}")
