"""``ascend-doctor matrix refresh``: what the matrix lacks."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from ascend_doctor.commands.options import repeated
from ascend_doctor.commands.options.matrix import catalog, matrix_option
from ascend_doctor.exits import EXIT_FINDINGS, EXIT_OK, EXIT_UNKNOWN
from ascend_doctor.matrix.queries import choose
from ascend_doctor.render.plain import one_line

if TYPE_CHECKING:
    from ascend_doctor.matrix.catalog import Catalog
    from ascend_doctor.matrix.schema import Component


@click.command("refresh")
@click.argument("names", metavar="[COMPONENT]...", nargs=-1)
@repeated(
    "--git-mirror",
    "mirrors",
    metavar="[NAME=]URL_OR_DIR",
    help="Clones or a server instead of upstream, as for setup.",
)
@click.option("--index/--no-index", default=True, help="Ask the indexes of pip as well.")
@matrix_option
def command(
    *, names: tuple[str, ...], mirrors: tuple[str, ...], index: bool, overlays: tuple[str, ...]
) -> int:
    """Propose rows for what repositories and indexes have by now, as a diff. For maintainers.

    Reads tags and branches of the components' repositories and what pip's indexes list. Proposed
    rows carry ref, commit, day, source and what a wheel's metadata requires; their documents have
    still to be read, and until then they are never chosen. Apply the diff with `git apply`.

    \b
    Exit codes: 0 nothing new; 1 something is proposed; 3 a repository or index did not answer.
    """
    from ascend_doctor.provision.git import Git
    from ascend_doctor.provision.running import Runner
    from ascend_doctor.provision.sources import Mirrors
    from ascend_doctor.upkeep.package_index import PackageIndex
    from ascend_doctor.upkeep.row_diff import render_diff
    from ascend_doctor.upkeep.survey import Survey

    rows = catalog(overlays)
    survey = Survey(
        catalog=rows,
        git=Git(runner=Runner()),
        mirrors=Mirrors(mirrors, rows.component_ids),
        index=PackageIndex() if index else None,
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


def _choose(rows: Catalog, names: Iterable[str]) -> Iterator[Component]:
    yield from (choose(rows, name).component for name in names)
    if not names:
        yield from rows.components
