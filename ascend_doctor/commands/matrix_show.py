"""``ascend-doctor matrix show``: a stack, a set or a component with its sources."""

from collections.abc import Iterable, Iterator, Mapping

import click
import msgspec

from ascend_doctor.commands.matrix import write
from ascend_doctor.commands.options.format_option import shape_option
from ascend_doctor.commands.options.input_file import InputFile
from ascend_doctor.commands.options.matrix import catalog, matrix_option
from ascend_doctor.findings import first_of
from ascend_doctor.language import say
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.queries import Chosen, choose, near_rows
from ascend_doctor.matrix.schema import Component, Need, Release, Source, Stack
from ascend_doctor.matrix.sets import PinnedSet
from ascend_doctor.render.formats.json import pretty

_SHOWN = 8


@click.command("show")
@click.argument("identity", metavar="ID", type=InputFile())
@matrix_option
@shape_option
def command(identity: str, overlays: tuple[str, ...], shape: str) -> int:
    """Show the stack or set ID, or the component ID (or ID==VERSION), with rows and sources."""
    rows = catalog(overlays)
    stack = next((row for row in rows.stacks if row.id == identity), None)
    if stack is not None:
        evidence = rows.evidence(stack.id)
        if shape == "json":
            write(pretty({**msgspec.to_builtins(stack), "evidence": evidence.runs}))
        else:
            words = {"documented": "without a result"}
            runs = (
                f"{say(words.get(run.standing, run.standing))}: {say(run.summary)}"
                for run in evidence.runs
            )
            write(*_stack(stack, evidence.standing), *runs)
        return 0
    if (pinned := next((row for row in rows.sets if row.id == identity), None)) is not None:
        write(*([pretty(pinned)] if shape == "json" else _set(pinned)))
        return 0
    chosen = choose(rows, identity)
    if shape == "json":
        write(pretty(chosen.component if chosen.version is None else chosen.releases))
        return 0
    write(*describe_chosen(chosen, rows, sources=True))
    return 0


def describe_chosen(chosen: Chosen, rows: Catalog, *, sources: bool = False) -> Iterator[str]:
    """A component, or one version with its needs and the sets that have it."""
    component, version = chosen.component, chosen.version
    if version is None:
        yield from _component(component, sources=sources)
        return
    yield f"{component.id}=={version}: {say(component.title)}"
    if component.note:
        yield f"{say('note')}: {say(component.note)}"
    for release in chosen.releases:
        yield from ("", *_release(release, sources=sources))
    if not chosen.releases:
        near = near_rows(component, version) or say("none")
        yield from ("", say(f"the matrix has no {component.id} {version}; near are {near}"))
    sets = [row.id for row in rows.sets if row.pins.get(component.id) == version]
    if sets:
        yield from ("", say(f"Sets that have it: {first_of(sets, _SHOWN)}"))


def _stack(stack: Stack, standing: str) -> Iterable[str]:
    yield f"{stack.id}: {say(stack.title)}"
    run = "" if standing == "documented" else say(f"; {standing} by a run")
    yield f"{say('status')}: {say(stack.status)}{run}"
    yield from _table(stack.components, stack.environment)
    yield from (f"{say('note')}: {say(note)}" for note in stack.notes)
    yield from source_lines(stack.sources)


def _set(row: PinnedSet) -> Iterable[str]:
    yield f"{row.id}: {say(row.title)}"
    chips = ", ".join((*row.families, *row.arch)) or say("any")
    yield f"{say(row.kind)}; {say('for')} {chips}"
    yield from _table({**row.pins, **row.others}, row.environment)
    yield from (f"{say('patch')}: {text}" for text in row.patches)
    if row.note:
        yield f"{say('note')}: {say(row.note)}"
    yield from source_lines(row.sources)


def _table(versions: Mapping[str, str], environment: Mapping[str, str]) -> Iterator[str]:
    yield from (f"  {name:<22} {version}" for name, version in versions.items())
    yield from (f"  export {name}={value}" for name, value in environment.items())


def _component(component: Component, *, sources: bool) -> Iterable[str]:
    yield f"{component.id}: {say(component.title)}"
    obtain = component.obtain
    yield f"{say('obtained')}: {obtain.kind} {obtain.url or obtain.distribution}".rstrip()
    if component.note:
        yield f"{say('note')}: {say(component.note)}"
    for ref in component.refs:
        state = say("exists" if ref.exists else "does not exist")
        use = "; " + say(f"use ref {ref.use}") if ref.use else ""
        yield f"ref {ref.ref}: {state}{use}{f' ({say(ref.note)})' if ref.note else ''}"
    releases = [row.version for row in component.releases]
    yield say(f"Versions: {first_of(releases, _SHOWN) or 'not listed'}")
    yield from source_lines(component.sources if sources else ())


def _release(release: Release, *, sources: bool) -> Iterable[str]:
    moving = say("moving branch") if release.moving else ""
    tail = ", ".join(filter(None, (say(release.status), release.released, moving)))
    yield f"{release.version}{f'  ({tail})' if tail else ''}"
    if release.reports:
        yield f"  {say('says of itself')}: {release.reports}"
    if release.commit:
        yield f"  commit: {release.commit}"
    yield from (f"  {say('needs')} {describe_need(need)}" for need in release.requires)
    yield from (f"  {say('conflicts with')} {describe_need(need)}" for need in release.conflicts)
    if release.note:
        yield f"  {say('note')}: {say(release.note)}"
    yield from source_lines(release.sources if sources else (), indent="  ")


def describe_need(need: Need) -> str:
    """A need in words: the range, where it applies, whether it is only documented, and why."""
    when = "".join(" " + say(f"where {name} is {value}") for name, value in need.when.items())
    force = "" if need.hard else f" ({say('documented together')})"
    because = f": {say(need.because)}" if need.because else ""
    return f"{need.component} {need.versions or say('any')}{when}{force}{because}"


def source_lines(sources: Iterable[Source], *, indent: str = "") -> Iterable[str]:
    for source in sources:
        date = ", " + say(f"read on {source.date}") if source.date else ""
        yield f"{indent}{say('source')}: {source.url}{date}"
