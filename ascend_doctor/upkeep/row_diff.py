"""Proposals as a unified diff of the matrix's files."""

import difflib
import json
from collections.abc import Iterable
from pathlib import Path

from ascend_doctor.upkeep.proposals import MovedHead, NewRow

_RELEASES = "releases:\n"


def render_diff(file: Path, rows: Iterable[NewRow], heads: Iterable[MovedHead], today: str) -> str:
    """The diff of a component's file that adds rows at the top and moves heads; may be ""."""
    text = file.read_text("utf-8")
    changed = text
    for head in heads:
        changed = changed.replace(f'"{head.old}"', f'"{head.new}"', 1)
    added = "".join(render_row(row, today) for row in rows)
    if added and _RELEASES in changed:
        changed = changed.replace(_RELEASES, _RELEASES + added, 1)
    name = f"matrices/components/{file.name}"
    lines = difflib.unified_diff(
        text.splitlines(keepends=True), changed.splitlines(keepends=True), f"a/{name}", f"b/{name}"
    )
    return "".join(lines)


def render_row(row: NewRow, today: str) -> str:
    """A row as the files have it, marked as one with unread documents."""
    lines = [f"- version: {_quote(row.version)}"]
    if row.released:
        lines.append(f"  released: {_quote(row.released)}")
    if row.ref:
        lines += [f"  ref: {_quote(row.ref)}", f"  commit: {_quote(row.commit)}"]
    if row.moving:
        lines.append("  moving: true")
    lines.append("  status: unmapped")
    if row.core:
        lines.append(f"  attributes: {{core: {_quote(row.core)}}}")
    lines.append('  note: "Proposed by matrix refresh; its documents were not read."')
    source = f"{{url: {_quote(row.source)}, date: {_quote(today)}}}"
    if row.requires:
        lines.append("  requires:")
    lines += [
        f"    - {{component: {component}, versions: {_quote(versions)}, evidence: code, "
        f'because: "Metadata of the wheel.", sources: [{source}]}}'
        for component, versions in row.requires
    ]
    lines.append(f"  sources: [{source}]")
    return "".join(f"{line}\n" for line in lines)


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=True)
