"""What the diagnosis makes of public threads: `python -m tests.diagnosis.confusion`.

Prints every excerpt whose root cause was told wrongly, a table of what was taken for what, and
the shares that the tests hold to.
"""

from __future__ import annotations

from collections import Counter

import click

from tests.diagnosis.logs import answer, of_text, threads


def rows(files: str = "*") -> list[tuple[str, str, str]]:
    """Source, label and answer of every excerpt."""
    return [(source, label, answer(of_text(text))) for source, label, text in threads(files)]


def share(found: list[tuple[str, str, str]]) -> float:
    """The share of right answers among excerpts with a failure."""
    told = [(label, said) for _, label, said in found if label != "none"]
    return sum(label == said for label, said in told) / len(told)


def false_alarms(found: list[tuple[str, str, str]]) -> list[str]:
    """Healthy logs that were given a known failure."""
    return [
        source
        for source, label, said in found
        if label == "none" and said not in {"none", "unknown"}
    ]


def main() -> None:
    found = rows()
    counted = Counter((label, said) for _, label, said in found)
    width = max(len(label) for label, _ in counted)
    for (label, said), count in sorted(counted.items()):
        mark = " " if label == said else "!"
        click.echo(f"{mark} {count:3}  {label:<{width}}  {said}")
    for source, label, said in found:
        if label != said:
            click.echo(f"wrong: {source}: {label}, told as {said}")
    broken = [row for row in found if row[1] != "none"]
    healthy = [row for row in found if row[1] == "none"]
    click.echo(f"{len(broken)} failures, {share(found):.1%} right")
    later = rows("later")
    click.echo(f"{len(later)} of them were not learnt from, {share(later):.1%} right")
    click.echo(f"{len(healthy)} healthy logs, {len(false_alarms(found))} with a known failure")


if __name__ == "__main__":
    main()
