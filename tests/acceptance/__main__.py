"""Runs the tests that need other projects' repositories, other interpreters, files or hours."""

import os
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import pytest

from ascend_doctor.errors import DataError
from tests.acceptance.fetching import fetch
from tests.acceptance.needs import WHOLE, Manifest, Need, load
from tests.acceptance.outcomes import Outcomes, table

ROOT = Path(__file__).parents[2]
PYTHON = "ASCEND_DOCTOR_TEST_PYTHON"
FAILED, ABSENT, INTERRUPTED, BUG = 1, 3, 130, 70


@click.command(help="Run the tests of each NEED (default: all needs that are present).")
@click.argument("names", nargs=-1, metavar="[NEED]...")
@click.option("--list", "lists", is_flag=True, help="List the needs and run nothing.")
@click.option("--fetch", "fetches", is_flag=True, help="Fetch absent needs into .acceptance/.")
@click.option("--from", "source", default="", metavar="FOLDER|URL", help="Where to clone from.")
@click.option("--seed", type=int, help="Seed of random cases.")
@click.option("--record", type=click.Path(file_okay=False), help="Folder for measurements.")
@click.option("-k", "expression", default="", help="Select tests by name, as pytest does.")
@click.option(
    "-n", "processes", type=int, default=1, help="Number of processes.", show_default=True
)
def main(  # noqa: PLR0913, PLR0917 - one parameter an option
    names: tuple[str, ...],
    lists: bool,
    fetches: bool,
    source: str,
    seed: int | None,
    record: str | None,
    expression: str,
    processes: int,
) -> None:
    try:
        manifest = load()
        needs = [manifest.need(name) for name in names] or list(manifest.needs)
    except DataError as error:
        raise click.UsageError(str(error)) from error
    failures = {need.id: fetch(manifest, need, source) for need in needs} if fetches else {}
    absent = {need.id: failures.get(need.id) or need.absence() for need in needs}
    absent = {name: reason for name, reason in absent.items() if reason}
    if lists:
        for line in _descriptions(needs, absent):
            click.echo(line)
        sys.exit(0)
    _set_variables(seed, record, whole=any(need.is_table for need in needs))
    files, blocked = _choose(manifest, needs)
    outcomes = Outcomes()
    options = ["-k", expression] if expression else []
    options += ["-n", str(processes), "--dist", "loadfile"] if processes > 1 else []
    code = pytest.main(["-q", *options, *files], [outcomes]) if files else pytest.ExitCode.OK
    for line in (*table(needs, outcomes, absent), *blocked):
        click.echo(line)
    sys.exit(_exit_code(code, outcomes, absent if names else {}))


def _set_variables(seed: int | None, record: str | None, *, whole: bool) -> None:
    os.environ.setdefault(PYTHON, sys.executable)
    if whole:
        drawn = random.randrange(10**6) if seed is None else seed
        click.echo(f"{WHOLE}={os.environ.setdefault(WHOLE, str(drawn))} draws the same rows again")
    if seed is not None:
        os.environ["ASCEND_DOCTOR_TEST_SEED"] = str(seed)
    if record:
        Path(record).mkdir(parents=True, exist_ok=True)
        os.environ["ASCEND_DOCTOR_TEST_RECORD"] = str(Path(record).absolute())


def _choose(manifest: Manifest, needs: Sequence[Need]) -> tuple[list[str], list[str]]:
    """Files whose needs are all present; a line for each other file."""
    files, blocked = [], []
    for name in sorted({name for need in needs for name in need.files}):
        if reasons := manifest.absences(name):
            blocked.append(f"not run: tests/{name}: {'; '.join(reasons)}")
        else:
            files.append(str(ROOT / "tests" / name))
    return files, blocked


def _descriptions(needs: Sequence[Need], absent: dict[str, str]) -> Iterator[str]:
    for need in needs:
        state = "absent" if need.id in absent else "present"
        yield f"{state:8} {need.id}: {need.what}, {need.minutes:g} min"
        if need.id in absent:
            yield f"         {absent[need.id]}"
        elif need.missing():
            yield f"         no clone of {', '.join(need.missing())}"


def _exit_code(code: int, outcomes: Outcomes, absent: dict[str, str]) -> int:
    failed = outcomes.count("failed")
    if code == pytest.ExitCode.INTERRUPTED and not failed:
        return INTERRUPTED
    if failed:
        return FAILED
    if code in {pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.USAGE_ERROR}:
        return BUG
    return 0 if outcomes.count("passed") and not absent else ABSENT


if __name__ == "__main__":
    main(prog_name="python -m tests.acceptance")
