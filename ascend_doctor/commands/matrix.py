"""``ascend-doctor matrix``: the versions that go together, why, and a stack that fits."""

from __future__ import annotations

import datetime as dt
import difflib
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click
import msgspec

from ascend_doctor.commands import matrix_prove, matrix_refresh, matrix_upgrade
from ascend_doctor.commands.lazy import SuggestingGroup
from ascend_doctor.commands.options.format_option import shape_option
from ascend_doctor.commands.options.input_file import InputFile
from ascend_doctor.commands.options.launch import framework_option
from ascend_doctor.commands.options.matrix import catalog, matrix_option
from ascend_doctor.exits import EXIT_FINDINGS
from ascend_doctor.findings import quantity
from ascend_doctor.language import say
from ascend_doctor.matrix.lint import lint as lint_matrix
from ascend_doctor.matrix.queries import MACHINE_FACTS, choose, is_version, staleness, why
from ascend_doctor.matrix.schema import Component, Need, Release, Source, Stack
from ascend_doctor.render.columns import pad
from ascend_doctor.render.formats.json import pretty
from ascend_doctor.render.plain import one_line

if TYPE_CHECKING:
    from ascend_doctor.matrix.catalog import Catalog
    from ascend_doctor.provision.conflict import Refusal
    from ascend_doctor.provision.solve import Solution, SolveQuery


@click.group("matrix", cls=SuggestingGroup)
def command() -> None:
    """Show which versions go together and why, and find a stack that fits."""


@command.command("list")
@matrix_option
@shape_option
def list_rows(overlays: tuple[str, ...], shape: str) -> int:
    """List the stacks, documented, executed or contradicted by a run, and the components."""
    rows = catalog(overlays)
    if shape == "json":
        components = {
            component.id: [row.version for row in component.releases]
            for component in rows.components
        }
        standings = {stack.id: rows.evidence(stack.id).standing for stack in rows.stacks}
        content = {"stacks": rows.stacks, "evidence": standings, "components": components}
        _write(pretty({"schema": 1, **content}))
        return 0
    _write(say("Stacks"))
    for stack in rows.stacks:
        standing = rows.evidence(stack.id).standing
        status = "" if stack.status == "documented" else f"  ({say(stack.status)})"
        _write(f"  {stack.id:<28} {pad(say(standing), 13)} {say(stack.title)}{status}")
    _write("", say("Components"))
    for component in rows.components:
        versions = ", ".join(row.version for row in component.releases)
        versions = versions or say("not listed; bounds only")
        _write(f"  {component.id:<22} {_cut(versions, 90)}")
    note = staleness(rows, dt.datetime.now(dt.timezone.utc).date())
    if note:
        click.echo(say(note), err=True)
    return 0


@command.command("show")
@click.argument("identity", metavar="ID", type=InputFile())
@matrix_option
@shape_option
def show(identity: str, overlays: tuple[str, ...], shape: str) -> int:
    """Show the stack ID, or the component ID (or ID==VERSION), with every row and source."""
    rows = catalog(overlays)
    stack = next((row for row in rows.stacks if row.id == identity), None)
    if stack is not None:
        evidence = rows.evidence(stack.id)
        if shape == "json":
            _write(pretty({**msgspec.to_builtins(stack), "evidence": evidence.runs}))
        else:
            runs = (f"{say(run.standing)}: {say(run.summary)}" for run in evidence.runs)
            _write(*_stack(stack), *runs)
        return 0
    chosen = choose(rows, identity)
    if shape == "json":
        _write(pretty(chosen.component if chosen.version is None else chosen.releases))
        return 0
    if chosen.version is None:
        _write(*_component(chosen.component))
    for release in chosen.releases:
        _write("", *_release(release))
    if not chosen.releases and chosen.version is not None:
        _write("", say(f"no row speaks for {chosen.version}"))
    return 0


@command.command("why")
@click.argument("component")
@click.argument("other")
@matrix_option
def why_bound(component: str, other: str, overlays: tuple[str, ...]) -> int:
    """Show the rows that bind COMPONENT and OTHER: components, or versions as ID==VERSION."""
    rows = catalog(overlays)
    bonds = why(rows, choose(rows, component), choose(rows, other))
    for bond in bonds:
        line = f"{say(bond.kind)}: {bond.row}: {say(bond.text)}"
        _write(line, *_sources(bond.sources, indent="    "))
    if not bonds:
        _write(say(f"no row binds {component} and {other}"))
    return 0


@command.command("lint")
@matrix_option
def lint(overlays: tuple[str, ...]) -> int:
    """Check every matrix file: shape, references, ranges, cycles, sources, contradictions."""
    problems = lint_matrix(catalog(overlays))
    for problem in problems:
        _write(str(problem))
    count = quantity(len(problems), "problem")
    click.echo(say(f"{count} in the matrix"), err=True)
    return EXIT_FINDINGS if problems else 0


@command.command("solve")
@click.option("--megatron", required=True, metavar="X", help="0.15.3, 0.15, or a ref.")
@framework_option
@click.option(
    "--on",
    "pins",
    multiple=True,
    metavar="NAME=VERSION",
    help="A machine fact (cann, driver, python, arch, soc) instead of this machine's; repeatable.",
)
@click.option("--anywhere", is_flag=True, help="Leave this machine out of the question.")
@click.option(
    "--doubts",
    is_flag=True,
    help="Allow pairs that no document names and nothing refuses; each is listed.",
)
@matrix_option
@shape_option
def solve_stack(  # noqa: PLR0913 - a parameter an option
    *,
    megatron: str,
    framework: str | None,
    pins: tuple[str, ...],
    anywhere: bool,
    doubts: bool,
    overlays: tuple[str, ...],
    shape: str,
) -> int:
    """Find the stack for a Megatron-LM on this machine, or say why there is none."""
    from ascend_doctor.provision.conflict import refusal  # noqa: PLC0415 - resolvelib is slow
    from ascend_doctor.provision.request_ranges import wishes  # noqa: PLC0415
    from ascend_doctor.provision.solve import SolveQuery, solve  # noqa: PLC0415

    rows = catalog(overlays)
    machine = {} if anywhere else _this_machine(rows)
    machine |= facts_on(rows, pins)
    question = SolveQuery(wishes=wishes(rows, megatron, framework), machine=machine, doubts=doubts)
    solution = solve(rows, question)
    if shape == "json":
        result = solution or refusal(rows, question)
        _write(
            pretty(
                {"schema": 1, "machine": machine, "found": solution is not None, "result": result}
            )
        )
    elif solution is not None:
        _write(*_solution(solution, machine))
    else:
        _write(*refusal_lines(refusal(rows, question), question))
    return 0 if solution is not None else EXIT_FINDINGS


command.add_command(matrix_prove.command)
command.add_command(matrix_upgrade.command)
command.add_command(matrix_refresh.refresh)
command.add_command(matrix_refresh.stale)


def facts_on(rows: Catalog, pins: Iterable[str]) -> dict[str, str]:
    """--on's facts: a chip's family, Python's line. Raises UsageError: unknown, or bad version."""
    machine = {}
    for pin in pins:
        name, mark, version = pin.partition("=")
        if not mark or name not in MACHINE_FACTS:
            raise click.UsageError(
                f"--on {pin}: give NAME=VERSION with one of {', '.join(MACHINE_FACTS)}"
            )
        machine[name] = _fact(rows, name, version)
    return machine


def _fact(rows: Catalog, name: str, version: str) -> str:
    component = rows.component(name)
    known = [row.version for row in component.releases]
    if name == "soc":
        family = rows.family_of(version)
        version = family.id if family else version
    elif name == "python" and re.fullmatch(r"3\.\d+\.\d+", version):
        # Rows name Python lines, as 3.10: all releases of a line share wheels.
        version = version.rpartition(".")[0]
    listed = version in known or not known or name == "driver"
    if not listed or not is_version(component.scheme, version):
        begun = [release for release in known if release.startswith(version)]
        near = begun or difflib.get_close_matches(version, known, n=3, cutoff=0.3) or known[:6]
        raise click.UsageError(
            f"--on {name}={version}: no such version in the matrix; known are {', '.join(near)}"
        )
    return version


def _this_machine(rows: Catalog) -> dict[str, str]:
    from ascend_doctor.collect.snapshot import take  # noqa: PLC0415 - only to solve
    from ascend_doctor.machine.live import LiveMachine  # noqa: PLC0415
    from ascend_doctor.provision.request_ranges import machine_of  # noqa: PLC0415

    return machine_of(take(LiveMachine(), rows), rows)


def _solution(solution: Solution, machine: dict[str, str]) -> Iterable[str]:
    facts = ", ".join(f"{k} {v}" for k, v in machine.items()) or say("any")
    yield f"{say('machine')}: {facts}"
    for name, version in sorted(solution.versions.items()):
        yield f"  {name:<22} {version}"
    for name, ranges in sorted(solution.ranges.items()):
        yield f"  {name:<22} {', '.join(text for text in ranges if text) or say('any')}"
    for doubt in solution.doubts:
        got = say(f"got {doubt.version}" if doubt.version else "another range is needed")
        need = say(f"{doubt.by} is documented with {_need(doubt.need)}")
        yield f"{say('doubt')}: {need}; {got}"
    yield from (f"{say('stack')}: {name}" for name in solution.stacks)


def refusal_lines(refused: Refusal, question: SolveQuery) -> Iterable[str]:
    wishes_ = [f"{name} {question.wishes[name]}".rstrip() for name in refused.wishes]
    pins = [f"{name} {question.machine[name]}" for name in refused.machine]
    both = say(" and ")
    shown = both.join(wishes_)
    if pins:
        yield say(f"no stack has {shown} on a machine with {both.join(pins)}")
    else:
        yield say(f"no stack has {shown}")
    yield from (f"{say('because')} {say(reason)}" for reason in refused.reasons)
    yield from (f"{say('instead')} {say(change)}" for change in refused.changes)


def _stack(stack: Stack) -> Iterable[str]:
    yield f"{stack.id}: {say(stack.title)}"
    yield f"{say('status')}: {say(stack.status)}"
    for name, versions in stack.components.items():
        yield f"  {name:<22} {versions}"
    for name, value in stack.environment.items():
        yield f"  export {name}={value}"
    yield from (f"{say('note')}: {say(note)}" for note in stack.notes)
    yield from _sources(stack.sources)


def _component(component: Component) -> Iterable[str]:
    yield f"{component.id}: {say(component.title)}"
    obtain = component.obtain
    yield f"{say('obtained')}: {obtain.kind} {obtain.url or obtain.distribution}".rstrip()
    if component.note:
        yield f"{say('note')}: {say(component.note)}"
    for ref in component.refs:
        state = say("exists" if ref.exists else "does not exist")
        use = "; " + say(f"use ref {ref.use}") if ref.use else ""
        yield f"ref {ref.ref}: {state}{use}{f' ({say(ref.note)})' if ref.note else ''}"
    yield from _sources(component.sources)


def _release(release: Release) -> Iterable[str]:
    moving = say("moving branch") if release.moving else ""
    tail = ", ".join(filter(None, (say(release.status), release.released, moving)))
    yield f"{release.version}{f'  ({tail})' if tail else ''}"
    if release.reports:
        yield f"  {say('says of itself')}: {release.reports}"
    if release.commit:
        yield f"  commit: {release.commit}"
    yield from (f"  {say('needs')} {_need(need)}" for need in release.requires)
    yield from (f"  {say('conflicts with')} {_need(need)}" for need in release.conflicts)
    if release.note:
        yield f"  {say('note')}: {say(release.note)}"
    yield from _sources(release.sources, indent="  ")


def _need(need: Need) -> str:
    when = "".join(" " + say(f"where {name} is {value}") for name, value in need.when.items())
    force = "" if need.hard else f" ({say('documented together')})"
    because = f": {say(need.because)}" if need.because else ""
    return f"{need.component} {need.versions or say('any')}{when}{force}{because}"


def _sources(sources: Iterable[Source], *, indent: str = "") -> Iterable[str]:
    for source in sources:
        date = ", " + say(f"read on {source.date}") if source.date else ""
        yield f"{indent}{say('source')}: {source.url}{date}"


def _cut(text: str, size: int) -> str:
    return text if len(text) <= size else f"{text[: size - 3].rstrip(', ')} …"


def _write(*rows: str) -> None:
    for row in rows:
        for line in row.rstrip("\n").split("\n"):
            click.echo(one_line(line))
