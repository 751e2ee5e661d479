"""``ascend-doctor matrix upgrade``: what goes, comes and breaks with another release."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ascend_doctor.commands.options import defaulted, repeated
from ascend_doctor.commands.options.input_file import InputFile, prefix_option
from ascend_doctor.commands.options.matrix import catalog, matrix_option
from ascend_doctor.errors import DataError
from ascend_doctor.exits import EXIT_FINDINGS, EXIT_OK, EXIT_UNKNOWN
from ascend_doctor.language import say
from ascend_doctor.machine.kinds import LOCK
from ascend_doctor.matrix.queries import MACHINE_FACTS, choose
from ascend_doctor.provision.request_ranges import FRAMEWORKS
from ascend_doctor.render.formats.json import pretty
from ascend_doctor.render.plain import one_line

if TYPE_CHECKING:
    from ascend_doctor.matrix.catalog import Catalog
    from ascend_doctor.provision.solve import SolveQuery
    from ascend_doctor.upkeep.upgrade import Upgrade

_TITLES = {"breaks": "Breaks", "goes": "Goes", "comes": "Comes"}


@click.command("upgrade")
@click.option(
    "--lock",
    metavar="FILE",
    type=InputFile(LOCK),
    help="Upgrade this stack.  [default: the stack in use]",
)
@prefix_option
@click.option(
    "--to",
    "changes",
    multiple=True,
    required=True,
    metavar="NAME=VERSION",
    help="megatron, cann, torch-npu or another component, as it is to be; repeatable.",
)
@repeated(
    "--git-mirror",
    "mirrors",
    metavar="[NAME=]DIR",
    help="Clones whose releases are compared, named as for setup; nothing is fetched.",
)
@repeated(
    "--wheels",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    metavar="DIR",
    help="Wheels to compare, beside those that the prefix keeps.",
)
@matrix_option
@defaulted("--format", "shape", type=click.Choice(["text", "json"]), default="text")
def command(
    *,
    lock: str | None,
    prefix: str | None,
    changes: tuple[str, ...],
    mirrors: tuple[str, ...],
    wheels: tuple[Path, ...],
    overlays: tuple[str, ...],
    shape: str,
) -> int:
    """Show what another CANN, Megatron-LM or torch_npu changes in a stack, and what breaks.

    Versions that can stay do. Changes come from facts of the matrix, and from the files of both
    releases where clones or wheels of them are at hand: names that frameworks import, environment
    variables, operators. What could not be told is listed. Nothing is installed.

    \b
    Exit codes: 0 nothing breaks; 1 something breaks, or no stack fits; 3 some could not be told.
    """
    from ascend_doctor.commands.matrix_solve import refusal_lines
    from ascend_doctor.provision import lock as locks
    from ascend_doctor.provision.conflict import refusal
    from ascend_doctor.provision.lock import Prefix
    from ascend_doctor.provision.sources import Mirrors
    from ascend_doctor.upkeep.upgrade import Sources, nearest_target, target_query, upgrade

    rows = catalog(overlays)
    file = Path(lock) if lock else locks.stack_in_use(prefix)
    if file is None:
        return _solve_for(parse_targets(rows, changes), overlays, shape)
    old = locks.read(file)
    query = target_query(rows, old, parse_targets(rows, changes))
    target = nearest_target(rows, old, query)
    if target is None:
        for line in refusal_lines(refusal(rows, query), query):
            click.echo(one_line(line))
        return EXIT_FINDINGS
    stored = Prefix.of(prefix).wheels
    folders = (*wheels, *((stored,) if stored.is_dir() else ()))
    sources = Sources(mirrors=Mirrors(mirrors, rows.component_ids), wheels=folders)
    result = upgrade(rows, old, target, sources)
    if shape == "json":
        click.echo(pretty({"schema": 1, "stacks": target.stacks, "upgrade": result}))
    else:
        for line in (*upgrade_lines(result), *next_lines(query, target.versions)):
            click.echo(one_line(line))
    if result.breaks:
        return EXIT_FINDINGS
    return EXIT_UNKNOWN if result.uncertain else EXIT_OK


def _solve_for(targets: Mapping[str, str], overlays: Iterable[str], shape: str) -> int:
    from ascend_doctor.commands import matrix_solve

    click.echo(say("no stack was built yet; with these versions go:"), err=True)
    words = ["--format", shape, *(word for each in overlays for word in ("--matrix", each))]
    for name, version in targets.items():
        option = "--on" if name in MACHINE_FACTS else "--with"
        pair = f"{name}={version}"
        words += ["--megatron", version] if name == "megatron" else [option, pair]
    return int(matrix_solve.command.main(words, standalone_mode=False))


def parse_targets(rows: Catalog, changes: Iterable[str]) -> dict[str, str]:
    """Versions by name. Raises UsageError."""
    targets: dict[str, str] = {}
    for text in changes:
        try:
            chosen = choose(rows, text)
        except DataError as error:
            raise click.UsageError(f"--to {text}: {error}") from error
        if not chosen.version:
            raise click.UsageError(f"--to {text}: give NAME=VERSION")
        name = chosen.component.id
        targets["megatron" if name == "megatron-lm" else name] = chosen.version
    return targets


def upgrade_lines(result: Upgrade) -> Iterator[str]:
    yield "Pins" if result.pins else "No pin changes"
    for name, (before, after) in result.pins.items():
        yield f"  {name:<22} {before or 'absent'} -> {after or 'absent'}"
    for kind, title in _TITLES.items():
        changes = [change for change in result.changes if change.kind == kind]
        if changes:
            yield say(title)
        for change in changes:
            yield f"  {change.subject}: {say(change.text)}"
            yield f"    {say('source')}: {', '.join(change.sources)}"
    if result.doubts:
        yield say("Doubts")
    for doubt in result.doubts:
        got = say(f"got {doubt.version}" if doubt.version else "another range is needed")
        need = f"{doubt.need.component} {doubt.need.versions}"
        yield f"  {say(f'{doubt.by} is documented with {need}')}; {got}"
    if result.blanks:
        yield say("Could not tell")
        yield from (f"  {say(blank)}" for blank in result.blanks)
        yield "  " + say("name clones with --git-mirror DIR, wheels with --wheels DIR")


def next_lines(query: SolveQuery, versions: Mapping[str, str]) -> Iterator[str]:
    """The command that builds the target and rehearses it before use."""
    framework = next((name for name in FRAMEWORKS if name in query.wishes), "")
    chosen = f" --framework {framework}=={versions[framework]}" if framework in versions else ""
    line = f"ascend-doctor setup --megatron {versions['megatron-lm']}{chosen} --prove rehearse"
    yield say(f"Next: {line}; the old stack stays until it passes")
