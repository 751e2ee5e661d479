"""``ascend-doctor compare``: the same job in two runs, and the first module where they part."""

import os
import shutil
from collections.abc import Mapping, Sequence

import click
import msgspec

from ascend_doctor.commands.options import defaulted, flag, repeated
from ascend_doctor.commands.options.launch import (
    memory_option,
    npus_option,
    patience_option,
    timeout_option,
    trainer_option,
)
from ascend_doctor.errors import DataError
from ascend_doctor.exits import EXIT_FINDINGS, EXIT_OK, EXIT_UNKNOWN
from ascend_doctor.machine.kinds import DUMP, refuse_other
from ascend_doctor.precision.dumps import read_dump
from ascend_doctor.precision.parting import Parting, find_partings
from ascend_doctor.precision.records import Dump, RankRecords
from ascend_doctor.precision.tolerances import Tolerance, parse_tolerances
from ascend_doctor.precision.wording import direction, explain, lines
from ascend_doctor.render.formats.json import pretty
from ascend_doctor.render.plain import one_line


@click.command("compare")
@defaulted(
    "--device",
    type=click.Choice(["auto", "npu", "simulated"]),
    default="auto",
    help="What the CPU is compared with; auto takes NPUs where there are any.",
)
@trainer_option
@click.option(
    "--prefix",
    metavar="DIR",
    help="Compare with the stack that setup built here; or the folder of one stack.",
)
@npus_option("NPUs of the simulated machine.", default=8)
@memory_option("")
@defaulted(
    "--steps",
    type=click.IntRange(1, 10_000),
    default=3,
    metavar="N",
    help="Steps that are recorded, from the first.",
)
@defaulted(
    "--seed",
    type=click.IntRange(0, 2**31 - 1),
    default=1234,
    metavar="N",
    help="Seed of random, NumPy and torch where the job sets none.",
)
@flag("--keep-dropout", help="Leave dropout on; its masks differ by device.")
@repeated(
    "--tolerance",
    "tolerances",
    metavar="DTYPE=X",
    help="How far tensors may be apart relative to their size, as bf16=0.1; repeatable.",
)
@click.option("--keep", metavar="DIR", help="Keep both dumps in this folder, which must be new.")
@click.option(
    "--record", metavar="DIR", help="Run COMMAND once, as it is, and write its dump here."
)
@timeout_option("Seconds for each run.", default=3600)
@patience_option()
@click.option("--format", "shape", type=click.Choice(["text", "json"]), default="text")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="DUMP_A DUMP_B | -- COMMAND...")
def command(
    *,
    device: str,
    python: str | None,
    prefix: str | None,
    npus: int,
    memory: float,
    steps: int,
    seed: int,
    keep_dropout: bool,
    tolerances: tuple[str, ...],
    keep: str | None,
    record: str | None,
    timeout: float,
    shape: str,
    words: tuple[str, ...],
) -> int:
    """Name the first module where two runs of a job part: on the CPU and on NPUs, or two dumps.

    \b
    ascend-doctor compare --npus 2 -- torchrun --nproc-per-node 2 train.py
    ascend-doctor compare --record good -- torchrun --nproc-per-node 8 train.py
    ascend-doctor compare good bad

    The job runs without an NPU, then on real or simulated ones; ASCEND_DOCTOR_DEVICE says cpu or
    npu to it. Nothing is printed where all agree. Exit code 1
    where runs part, 2 for a dump that cannot be read, 3 where a run failed.
    """
    limits = parse_tolerances(tolerances)
    if _are_dumps(words, record=record, keep=keep):
        return _compare(read_dump(words[0]), read_dump(words[1]), ("A", "B"), limits, shape)
    from ascend_doctor.commands.paired_runs import (
        RecorderOptions,
        choose_npu,
        find_home,
        record_run,
        run_pair,
    )
    from ascend_doctor.commands.rehearsal import choose_stack, search_path

    recorder = RecorderOptions(steps=steps, seed=seed, keep_dropout=keep_dropout, seconds=timeout)
    stack = choose_stack(prefix, None)
    if record:
        return record_run(words, record, recorder, find_home(stack, python))
    home = find_home(stack, python)
    # Refuses a misspelt program before building a simulated machine.
    search_path(home.interpreter, words, env=home.env)
    npu = choose_npu(device, home, npus=npus, memory=memory)
    pair = run_pair(words, npu, recorder, keep)
    return _compare(*pair, limits, shape) if pair else EXIT_UNKNOWN


def _are_dumps(words: Sequence[str], *, record: str | None, keep: str | None) -> bool:
    """Whether two dumps were named, not a command. Raises UsageError and DataError for neither."""
    if not words:
        raise click.UsageError(
            "name two dumps, or append the command after `--`; "
            "`ascend-doctor compare --record DIR -- COMMAND` writes a dump"
        )
    pair = len(words) == 2  # noqa: PLR2004
    if shutil.which(words[0]) is None:
        refuse_other(words[0], *((DUMP,) if os.path.isdir(words[0]) else ()))
    if os.path.isdir(words[0]):
        if not pair or record or keep:
            raise click.UsageError("two dumps are compared, without --record and --keep")
        return True
    if pair and not record and shutil.which(words[0]) is None:
        raise DataError(f"{words[0]}: no such dump; name two folders that --record wrote")
    return False


def _compare(
    reference: Dump,
    other: Dump,
    names: tuple[str, str],
    tolerances: Mapping[str, Tolerance],
    shape: str,
) -> int:
    ranks = _common_ranks(reference, other)
    pairs = {
        rank: (reference.ranks[rank].records, records.records) for rank, records in ranks.items()
    }
    partings = find_partings(pairs, tolerances)
    _write(partings, names, shape)
    return EXIT_FINDINGS if any(partings.values()) else EXIT_OK


def _common_ranks(reference: Dump, other: Dump) -> dict[str, RankRecords]:
    """Raises DataError where two dumps are not of the same kind, ranks and something at all."""
    for left, right in ((reference, other), (other, reference)):
        if absent := [rank for rank in left.ranks if rank not in right.ranks]:
            raise DataError(f"{right.path}: no {absent[0]}, which {left.path} has")
        if empty := [rank for rank in left.ranks if not left.ranks[rank].records]:
            raise DataError(f"{left.path}: nothing was recorded of {empty[0]}")
    return other.ranks


def _write(partings: dict[str, Parting | None], names: tuple[str, str], shape: str) -> None:
    if shape == "text":
        for line in lines(partings, names):
            click.echo(one_line(line))
        return
    rows = [
        {
            "rank": rank,
            "module": parting.module,
            "step": parting.record.step + 1,
            "direction": direction(parting),
            "cause": parting.cause.value,
            "explanation": explain(parting, names),
            "agreed": parting.agreed,
            "reference": msgspec.to_builtins(parting.reference),
            "other": msgspec.to_builtins(parting.other),
        }
        for rank, parting in partings.items()
        if parting
    ]
    document = {"schema": 1, "runs": list(names), "ranks": list(partings), "partings": rows}
    click.echo(pretty(document), nl=False, color=True)
