"""Two breakages of a machine at once, drawn at random: ``python -m tests.level0.pairs draw|judge``.

``draw`` writes pairs.yaml: pairs of rows of breakages.yaml, of a breakage on a healthy variation,
and of two variations. The label follows from those of the two: each breakage is still named, and
nobody is accused by a check that accuses in neither of the two alone.
"""

from __future__ import annotations

import fnmatch
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import click
import yaml

from ascend_doctor.findings import Level
from tests.level0.mutants import Mutant, breakages, news, seen, variations
from tests.machines.compose import spread

PAIRS = Path(__file__).with_name("pairs.yaml")
SEED = 2026
_COUNTS = {"broken": 40, "varied": 20, "healthy": 20}
# Whose values are mappings that two changes may share: words of a text, packages.
_NESTED = ("edit", "interpreter")

Kind = Literal["broken", "varied", "healthy"]


@dataclass(frozen=True, kw_only=True)
class Pair:
    kind: Kind
    first: Mutant
    second: Mutant

    @property
    def id(self) -> str:
        return f"{self.first.id} + {self.second.id}"

    def both(self) -> Mutant:
        """The machine with both changes."""
        return Mutant(
            id=self.id,
            what=f"{self.first.what}; {self.second.what}",
            on=self.first.on,
            see=(*self.first.see, *self.second.see),
            change=_together(self.first.change, self.second.change),
        )

    def faults(self) -> Iterator[str]:
        """What the report of both lacks of its label, and what it accuses besides."""
        found = news(self.both())
        for part in (self.first, self.second):
            if part.see and not seen(part, found):
                yield f"{part.id} is not named"
        alone = {check for part in (self.first, self.second) for check, _, _ in news(part)}
        for check, level, title in found:
            if level is Level.ERROR and check not in alone:
                yield f"{check} accuses: {title}"


def _together(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """One change that does both; raises AssertionError where they touch the same thing."""
    whole: dict[str, Any] = {}
    for key in first.keys() | second.keys():
        ours, theirs = first.get(key), second.get(key)
        if ours is None or theirs is None:
            whole[key] = ours if theirs is None else theirs
        elif isinstance(ours, list):
            assert not set(ours) & set(theirs), "both take the same away"
            whole[key] = [*ours, *theirs]
        else:
            whole[key] = _joined(dict(spread(ours)), dict(spread(theirs)), depth=key in _NESTED)
    return whole


def _joined(ours: dict[str, Any], theirs: dict[str, Any], *, depth: bool) -> dict[str, Any]:
    joined = {**ours, **theirs}
    for name in ours.keys() & theirs.keys():
        nested = depth and isinstance(ours[name], dict) and isinstance(theirs[name], dict)
        assert nested, f"both change {name}"
        joined[name] = _joined(ours[name], theirs[name], depth=False)
    for above, below in ((ours, theirs), (theirs, ours)):
        taken = [name for name, value in above.items() if value is None]
        for name in taken:
            assert not any(fnmatch.fnmatchcase(other, name) for other in below), name
    return joined


def pairs() -> list[Pair]:
    rows = {one.id: one for one in (*breakages(), *variations())}
    return [
        Pair(kind=row["kind"], first=rows[row["first"]], second=rows[row["second"]])
        for row in yaml.safe_load(PAIRS.read_text("utf-8"))
    ]


def _drawn(seed: int) -> Iterator[Pair]:
    chance = random.Random(seed)
    broken = [one for one in breakages() if one.see]
    healthy = [one for one in variations() if one.change]
    rooms = {"broken": (broken, broken), "varied": (broken, healthy), "healthy": (healthy, healthy)}
    for kind, count in _COUNTS.items():
        made: set[frozenset[str]] = set()
        while len(made) < count:
            first, second = (chance.choice(room) for room in rooms[kind])
            key = frozenset({first.id, second.id})
            if first.on != second.on or len(key) == 1 or key in made:
                continue
            if {check for _, check in first.see} & {check for _, check in second.see}:
                continue
            pair = Pair(kind=kind, first=first, second=second)  # type: ignore[arg-type]
            try:
                pair.both().machine()
            except AssertionError:
                continue
            made.add(key)
            yield pair


@click.command()
@click.argument("action", type=click.Choice(["draw", "judge"]))
@click.option("--seed", default=SEED)
def main(action: str, seed: int) -> None:
    if action == "draw":
        drawn = [{"kind": x.kind, "first": x.first.id, "second": x.second.id} for x in _drawn(seed)]
        head = f"# Drawn by pairs.py with seed {seed}; see there.\n"
        PAIRS.write_text(head + yaml.safe_dump(drawn, sort_keys=False), "utf-8")
        return
    right = dict.fromkeys(_COUNTS, 0)
    for pair in pairs():
        faults = list(pair.faults())
        right[pair.kind] += not faults
        for fault in faults:
            click.echo(f"{pair.kind} {pair.id} ({pair.first.on}): {fault}")
    click.echo("; ".join(f"{kind}: {right[kind]} of {_COUNTS[kind]}" for kind in _COUNTS))


if __name__ == "__main__":
    main()
