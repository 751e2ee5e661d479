"""Rows and facts of the matrix whose sources were read long ago."""

import datetime as dt
from collections.abc import Iterator

import msgspec

from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.schema import Source


class StaleRow(msgspec.Struct, frozen=True, kw_only=True):
    """``row`` as in `matrix show`, and the day on which its newest source was read."""

    row: str
    read: dt.date


def find_stale_rows(catalog: Catalog, before: dt.date) -> Iterator[StaleRow]:
    stale = [
        StaleRow(row=name, read=read)
        for name, sources in _rows(catalog)
        if (read := max(dt.date.fromisoformat(source.date) for source in sources)) < before
    ]
    yield from sorted(stale, key=lambda row: (row.read, row.row))


def _rows(catalog: Catalog) -> Iterator[tuple[str, tuple[Source, ...]]]:
    for component in catalog.components:
        for release in component.releases:
            needed = (source for need in release.requires for source in need.sources)
            yield f"{component.id}=={release.version}", (*release.sources, *needed)
        for behaviour in component.behaviours:
            yield f"{component.id}: {behaviour.id}", behaviour.sources
        for ref in component.refs:
            yield f"{component.id}: ref {ref.ref}", ref.sources
    for stack in catalog.stacks:
        yield stack.id, stack.sources
    for family in catalog.families:
        yield family.id, family.sources
    for variable in catalog.variables.variables:
        yield variable.name, variable.sources
