"""``ascend-doctor fleet check``: every node checks itself, and one verdict comes out."""

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

import click
import msgspec

from ascend_doctor.commands.options import flag
from ascend_doctor.commands.options.merged_output import (
    MergedOutputOptions,
    add_merged_options,
    expect_option,
    read_hosts,
)
from ascend_doctor.commands.options.node_check import (
    OnNodes,
    doctor_option,
    doctor_words,
    gang_option,
    on_nodes_options,
)
from ascend_doctor.commands.short_help import ShortHelpCommand
from ascend_doctor.errors import DataError
from ascend_doctor.exits import EXIT_INTERRUPTED
from ascend_doctor.fleet.engine import Engine, Job, Silent
from ascend_doctor.fleet.merge import merge, report_files
from ascend_doctor.fleet.merged_report import judge
from ascend_doctor.progress import NodeDisplay

_USUAL = "ray slurm doctor expect nodes gang level timeout device nproc only lists formats files"


@click.command("check", cls=ShortHelpCommand, usual=_USUAL)
@click.option(
    "--ray",
    metavar="[ADDRESS]",
    is_flag=False,
    flag_value="auto",
    help="Start it by Ray, in the cluster at ADDRESS or the one that is running here.",
)
@flag(
    "--slurm",
    help="Start it by srun, in this allocation or a new one; what stands behind -- is for srun.",
)
@doctor_option
@expect_option
@click.option("--nodes", type=click.IntRange(1), metavar="N", help="How many, where it may choose.")
@gang_option
@on_nodes_options
@click.option(
    "--reports",
    metavar="DIR",
    help="Empty folder for the nodes' reports, which are kept.  [default: a temporary one]",
)
@add_merged_options
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- SRUN OPTIONS...]")
def command(
    *,
    ray: str | None,
    slurm: bool,
    doctor: str | None,
    expect: str | None,
    nodes: int | None,
    gang: bool,
    on_nodes: OnNodes,
    reports: str | None,
    merged_output: MergedOutputOptions,
    words: tuple[str, ...],
) -> int:
    """Check every node by a scheduler that is there, and give one verdict.

    A node that does not report is unknown, with the reason that the scheduler gives.
    """
    start = time.monotonic()
    if expect and nodes:
        raise click.UsageError("--expect and --nodes exclude each other")
    hosts = read_hosts(expect) if expect else ()
    if (ray is not None) == slurm:
        raise click.UsageError(
            "give --ray or --slurm; without either, type on each node, numbered from 0, "
            "`ascend-doctor check --nnodes 4 --node-rank 0 --rdzv-endpoint node0:29400`"
        )
    if ray is not None and (words or doctor):
        raise click.UsageError("--doctor and what stands behind -- go with --slurm")
    engine = (
        _ray(ray) if ray is not None else _slurm(doctor_words(doctor), words, whole=on_nodes.whole)
    )
    with _folder(reports, shared=slurm) as folder:
        job = Job(
            folder=folder,
            check=(
                *on_nodes.arguments(fail_on=merged_output.output.fail_on.value),
                *(("--gang",) if gang else ()),
                *_acknowledgements(),
            ),
            deadline=on_nodes.timeout,
            nodes=hosts,
            count=nodes,
        )
        known = len(hosts) or nodes or 0
        quiet = merged_output.output.quiet
        with NodeDisplay(folder, known, seconds=job.deadline, quiet=quiet):
            silent, interrupted = _run(engine, job)
        merged = merge(report_files([folder]), merged_output.stack, by_file=True)
    expected = tuple(dict.fromkeys((*hosts, *(node.node for node in silent))))
    if not merged.nodes and not merged.unreadable and not expected:
        raise DataError("the check ran on no node" + (": interrupted" if interrupted else ""))
    report = judge(
        merged,
        expected=expected,
        fail_on=merged_output.output.fail_on,
        seconds=time.monotonic() - start,
        reasons={node.node: node.reason for node in silent},
    )
    code = merged_output.write(msgspec.structs.replace(report, interrupted=interrupted))
    return EXIT_INTERRUPTED if interrupted else code


def _acknowledgements() -> tuple[str, ...]:
    """Nodes get the named file: findings are acknowledged where they are made."""
    named = click.get_current_context().params.get("config")
    return ("--config", os.path.abspath(named)) if named else ()


def _slurm(doctor: tuple[str, ...], words: tuple[str, ...], *, whole: bool) -> Engine:
    from ascend_doctor.fleet.slurm_engine import SlurmEngine

    return SlurmEngine(doctor, words, whole=whole)


def _ray(address: str) -> Engine:
    from ascend_doctor.fleet.ray_engine import RayEngine

    return RayEngine(address)


def _run(engine: Engine, job: Job) -> tuple[tuple[Silent, ...], bool]:
    try:
        return engine.run(job), False
    except KeyboardInterrupt:
        return tuple(Silent(node, "interrupted before it reported") for node in job.nodes), True


@contextmanager
def _folder(named: str | None, *, shared: bool) -> Iterator[str]:
    """Where nodes' reports go. Slurm's nodes write there, so /tmp will not do."""
    if named is None:
        try:
            with tempfile.TemporaryDirectory(
                prefix="ascend-doctor-fleet-", dir=os.getcwd() if shared else None
            ) as folder:
                yield folder
        except PermissionError as error:
            raise DataError(f"{error.filename}: {error.strerror}; name --reports DIR") from error
        return
    try:
        os.makedirs(named, exist_ok=True)
        # Reports of an earlier check would be merged too.
        old = next(report_files([named]), None)
    except OSError as error:
        raise DataError(f"--reports {named}: {error.strerror}") from error
    if old is not None:
        raise DataError(f"--reports {named}: holds {os.path.basename(old)}; give an empty folder")
    yield os.path.abspath(named)
