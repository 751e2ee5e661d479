"""``ascend-doctor fleet sbatch``: the check of many nodes as a job of Slurm."""

from __future__ import annotations

import math
import shlex

import click

from ascend_doctor.commands.options.merged_output import expect_option, read_hosts
from ascend_doctor.commands.options.node_check import (
    OnNodes,
    doctor_option,
    doctor_words,
    gang_option,
    on_nodes_options,
)
from ascend_doctor.commands.options.output import file_option, put
from ascend_doctor.fleet.batch import script
from ascend_doctor.fleet.hostlist import compress


@click.command("sbatch")
@expect_option
@click.option("--nodes", type=click.IntRange(1), metavar="N", help="How many; Slurm chooses.")
@gang_option
@on_nodes_options
@doctor_option
@click.option(
    "--folder",
    metavar="DIR",
    default=".",
    show_default=True,
    help="Where the job makes ascend-doctor-JOB with the report; every node has to see it.",
)
@file_option("The script.  [default: standard output]")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- SBATCH OPTIONS...]")
def command(  # noqa: PLR0913 - the options of the command
    *,
    expect: str | None,
    nodes: int | None,
    gang: bool,
    on_nodes: OnNodes,
    doctor: str | None,
    folder: str,
    file: str | None,
    words: tuple[str, ...],
) -> None:
    """Write a batch script that checks every node of its allocation and merges.

    The job's exit code is that of the check, so other jobs can depend on it (afterok).
    """
    if bool(expect) == bool(nodes):
        raise click.UsageError("give either --nodes N or --expect HOSTFILE")
    hosts = read_hosts(expect) if expect else ()
    minutes = math.ceil(on_nodes.timeout / 60) + 2
    options = [
        ["--job-name=ascend-doctor"],
        [f"--nodes={nodes or len(hosts)}"],
        ["--ntasks-per-node=1"],
        [f"--time={minutes}"],
        *([["--exclusive"]] if on_nodes.whole else []),
        *([[f"--nodelist={compress(hosts)}"]] if hosts else []),
        *([list(words)] if words else []),
    ]
    together = ("--gang",) if gang else ()
    named = ("--doctor", shlex.join(doctor_words(doctor))) if doctor is not None else ()
    check = (*on_nodes.words, *together, *named)
    text = script(options, doctor_words(None), check, folder=folder)
    put(file, text)
