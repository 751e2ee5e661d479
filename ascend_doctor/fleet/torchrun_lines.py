"""The check over several nodes, started by hand on each."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence


def lines(
    nodes: Sequence[str], doctor: Sequence[str], check: Sequence[str], *, port: int
) -> Iterator[tuple[str, str]]:
    """A node and the line to type there; the ranks meet on the first one.

    Names come out of a file, so they are quoted, and none leaves the folder of the reports.
    """
    for rank, node in enumerate(nodes):
        over = (
            *("--nnodes", str(len(nodes)), "--node-rank", str(rank)),
            *("--rdzv-endpoint", f"{nodes[0]}:{port}"),
        )
        report = ("--no-redact", "--format", "json", "-o", f"reports/{node.replace('/', '_')}.json")
        yield node, f"mkdir -p reports && {shlex.join((*doctor, 'check', *check, *over, *report))}"
