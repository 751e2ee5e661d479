"""``ascend-doctor matrix refresh`` and ``stale``: what the matrix lacks, what is old in it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from ascend_doctor.commands.options.matrix import catalog, matrix_option
from ascend_doctor.exits import EXIT_FINDINGS, EXIT_OK, EXIT_UNKNOWN
from ascend_doctor.matrix.queries import choose
from ascend_doctor.provision.running import CommandError
from ascend_doctor.render.plain import one_line

if TYPE_CHECKING:
    from ascend_doctor.matrix.catalog import Catalog
    from ascend_doctor.matrix.schema import Component
    from ascend_doctor.upkeep.proposals import LostRef

_mirrors = click.option(
    "--git-mirror",
    "mirrors",
    multiple=True,
    metavar="[NAME=]URL_OR_DIR",
    help="Clones or a server instead of upstream, as for setup.",
)


@click.command("refresh")
@click.argument("names", metavar="[COMPONENT]...", nargs=-1)
@_mirrors
@click.option("--as-of", metavar="DATE", help="What came after that day does not count.")
@click.option("--index/--no-index", default=True, help="Ask the indexes of pip as well.")
@click.option(
    "--compare-wheels", is_flag=True, help="Compare every row with its wheel's metadata; slow."
)
@matrix_option
def refresh(
    *,
    names: tuple[str, ...],
    mirrors: tuple[str, ...],
    as_of: str | None,
    index: bool,
    compare_wheels: bool,
    overlays: tuple[str, ...],
) -> int:
    """Propose rows for what repositories and indexes have by now, as a diff. For maintainers.

    Reads tags and branches of the components' repositories and what pip's indexes list. Proposed
    rows carry ref, commit, day, source and what a wheel's metadata requires; their documents have
    still to be read, and until then they are never chosen. Apply the diff with `git apply`.

    \b
    Exit codes: 0 nothing new; 1 something is proposed; 3 a repository or index did not answer.
    """  # noqa: D301 - \b is click's mark for a block that is not to be rewrapped
    from ascend_doctor.provision.git import Git  # noqa: PLC0415 - not for matrix list
    from ascend_doctor.provision.running import Runner  # noqa: PLC0415
    from ascend_doctor.provision.sources import Mirrors  # noqa: PLC0415
    from ascend_doctor.upkeep.package_index import PackageIndex  # noqa: PLC0415
    from ascend_doctor.upkeep.row_diff import render_diff  # noqa: PLC0415
    from ascend_doctor.upkeep.survey import Survey  # noqa: PLC0415

    day = parse_day("--as-of", as_of) if as_of else ""
    rows = catalog(overlays)
    survey = Survey(
        catalog=rows,
        git=Git(runner=Runner()),
        mirrors=Mirrors(mirrors, rows.component_ids),
        index=PackageIndex(before=_day_after(day)) if index else None,
        as_of=day,
        compare=compare_wheels,
    )
    today = dt.datetime.now(dt.timezone.utc).date().isoformat()
    proposed = unanswered = False
    for component in _choose(rows, names):
        news = survey.examine(component)
        file = rows.files("components")[component.id][0]
        click.echo(render_diff(file, news.rows, news.heads, today), nl=False)
        for line in news.remarks:
            click.echo(one_line(f"# {line}"))
        for line in news.failures:
            click.echo(one_line(f"{component.id}: {line}"), err=True)
        proposed |= bool(news.rows or news.heads or news.remarks)
        unanswered |= bool(news.failures)
    if unanswered:
        return EXIT_UNKNOWN
    return EXIT_FINDINGS if proposed else EXIT_OK


@click.command("stale")
@click.option(
    "--days", type=click.IntRange(min=0), default=180, show_default=True, help="How old is stale."
)
@click.option("--refs", is_flag=True, help="Also ask the repositories for refs that vanished.")
@_mirrors
@matrix_option
def stale(*, days: int, refs: bool, mirrors: tuple[str, ...], overlays: tuple[str, ...]) -> int:
    """List rows and facts whose sources were read long ago, and refs that vanished.

    \b
    Exit codes: 0 none; 1 some; 3 a repository did not answer.
    """  # noqa: D301 - \b is click's mark for a block that is not to be rewrapped
    from ascend_doctor.upkeep.staleness import find_stale_rows  # noqa: PLC0415 - as above

    rows = catalog(overlays)
    today = dt.datetime.now(dt.timezone.utc).date()
    old = 0
    for row in find_stale_rows(rows, today - dt.timedelta(days=days)):
        old += 1
        click.echo(one_line(f"{row.read.isoformat()} {row.row}"))
    lost, failures = _find_lost(rows, mirrors) if refs else ([], [])
    for ref in lost:
        click.echo(one_line(f"{ref.component}=={ref.version}: its repository has no ref {ref.ref}"))
    for failure in failures:
        click.echo(one_line(failure), err=True)
    if failures:
        return EXIT_UNKNOWN
    return EXIT_FINDINGS if old or lost else EXIT_OK


def _find_lost(rows: Catalog, mirrors: tuple[str, ...]) -> tuple[list[LostRef], list[str]]:
    from ascend_doctor.provision.git import Git  # noqa: PLC0415 - as above
    from ascend_doctor.provision.running import Runner  # noqa: PLC0415
    from ascend_doctor.provision.sources import Mirrors  # noqa: PLC0415
    from ascend_doctor.upkeep.proposals import find_lost_refs, read_refs  # noqa: PLC0415

    lost: list[LostRef] = []
    failures: list[str] = []
    sources = Mirrors(mirrors, rows.component_ids)
    for component in rows.components:
        if component.upstream:
            source = sources.source(component.id, component.upstream.repository)
            try:
                refs = read_refs(source, Git(runner=Runner()), dated=False)
            except CommandError as error:
                failures.append(f"{component.id}: {error}")
            else:
                lost += find_lost_refs(component, refs)
    return lost, failures


def _choose(rows: Catalog, names: Iterable[str]) -> Iterator[Component]:
    yield from (choose(rows, name).component for name in names)
    if not names:
        yield from rows.components


def parse_day(option: str, text: str) -> str:
    """An ISO 8601 day. Raises UsageError."""
    try:
        return dt.date.fromisoformat(text).isoformat()
    except ValueError as error:
        raise click.UsageError(f"{option} {text}: give a day as 2026-11-23") from error


def _day_after(day: str) -> str:
    if not day:
        return ""
    return (dt.date.fromisoformat(day) + dt.timedelta(days=1)).isoformat()
