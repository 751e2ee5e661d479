"""Several changes of a machine at once, drawn at random: ``python -m tests.level0.pairs judge``.

``draw --seed N`` makes pairs-N.yaml: two or three rows of breakages.yaml, a breakage on a healthy
variation, or two variations. A breakage of one device is moved to a device drawn at random. The
label follows from those of the rows: each breakage is still named, and nobody is accused by a check
that accuses in none of them alone.
"""

import contextlib
import fnmatch
import functools
import json
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

import click
import yaml

from ascend_doctor.findings import Level
from ascend_doctor.machine.parsing import read_yaml
from tests.level0.machine import machine
from tests.level0.mutants import Mutant, breakages, fresh, is_seen, news, variations
from tests.machines.compose import spread

FOLDER = Path(__file__).parent
# By seed: breakages at once, and whether they move to other devices.
SEEDS = {2026: (2, False), 4711: (3, True)}
_COUNTS = {"broken": 40, "varied": 20, "healthy": 20}
# Whose values are mappings that two changes may share: words of a text, packages.
_NESTED = ("edit", "interpreter")
_DEVICE = re.compile(r"-i (\d+) |davinci(\d+)|\| (\d+)     910|address_(\d+)")
_ROW = re.compile(r"\| (\d+) +(?:910B3|Ascend910) .*\n\| \d+ .*?(0000:\w\w:00\.0)")

Kind = Literal["broken", "varied", "healthy"]


@dataclass(frozen=True, kw_only=True)
class Group:
    kind: Kind
    parts: tuple[Mutant, ...]

    @property
    def id(self) -> str:
        return " + ".join(part.id for part in self.parts)

    def whole(self) -> Mutant:
        return Mutant(
            id=self.id,
            what="; ".join(part.what for part in self.parts),
            on=self.parts[0].on,
            see=tuple(pair for part in self.parts for pair in part.see),
            change=functools.reduce(_together, (part.change for part in self.parts)),
        )

    def faults(self) -> Iterator[str]:
        """What the report of all lacks of the label or accuses besides."""
        keys = news(self.whole())
        for part in self.parts:
            if part.see and not is_seen(part, keys):
                yield f"{part.id} is not named"
        alone = {check for part in self.parts for check, _, _ in news(part)}
        for check, level, title in keys:
            if level is Level.ERROR and check not in alone:
                yield f"{check} accuses: {title}"


def move(row: Mutant, device: int | None) -> Mutant:
    """One device's breakage, on another; raises AssertionError where it does not apply."""
    if device is None:
        return row
    text = json.dumps(row.change)
    named = {int(next(filter(None, match))) for match in _DEVICE.findall(text)}
    assert len(named) == 1, "not of one device"
    (old,) = named
    assert old != device, "the same device"
    buses = dict(_ROW.findall(machine(row.on).commands["npu-smi info"].stdout))
    for pattern in ("-i {} ", "davinci{}", "| {}     910", "_{}=", "NPU{}"):
        text = text.replace(pattern.format(old), pattern.format(device))
    if str(old) in buses and str(device) in buses:
        text = text.replace(buses[str(old)], buses[str(device)])
    new = replace(row, id=f"{row.id} of {device}", change=json.loads(text))
    new.machine()
    return new


def _together(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """One change that does both; raises AssertionError where they collide."""
    whole: dict[str, Any] = {}
    for key in first.keys() | second.keys():
        ours, theirs = first.get(key), second.get(key)
        if ours is None or theirs is None:
            whole[key] = ours if theirs is None else theirs
        elif isinstance(ours, list):
            assert not set(ours) & set(theirs), "both take the same away"
            whole[key] = [*ours, *theirs]
        else:
            whole[key] = _join(dict(spread(ours)), dict(spread(theirs)), depth=key in _NESTED)
    return whole


def _join(ours: dict[str, Any], theirs: dict[str, Any], *, depth: bool) -> dict[str, Any]:
    joined = {**ours, **theirs}
    for name in ours.keys() & theirs.keys():
        nested = depth and isinstance(ours[name], dict) and isinstance(theirs[name], dict)
        assert nested, f"both change {name}"
        joined[name] = _join(ours[name], theirs[name], depth=False)
    for above, below in ((ours, theirs), (theirs, ours)):
        taken = [name for name, value in above.items() if value is None]
        for name in taken:
            assert not any(fnmatch.fnmatchcase(other, name) for other in below), name
    return joined


def groups(seed: int) -> list[Group]:
    rows = {mutant.id: mutant for mutant in (*breakages(), *variations())}
    return [
        Group(
            kind=drawn["kind"],
            parts=tuple(move(rows[key], device) for key, device in drawn["parts"]),
        )
        for drawn in read_yaml(FOLDER / f"pairs-{seed}.yaml")
    ]


def fresh_pairs(seed: int, count: int) -> list[Group]:
    """Two rows of fresh.yaml, of two kinds and checks, on one machine."""
    chance = random.Random(seed)
    rows = [mutant for mutant in fresh() if mutant.see]
    drawn: dict[str, Group] = {}
    while len(drawn) < count:
        parts = tuple(chance.sample(rows, 2))
        first, second = ({part.on, *(check for _, check in part.see)} for part in parts)
        group = Group(kind="broken", parts=parts)
        if first & second == {parts[0].on} & {parts[1].on} != set():
            with contextlib.suppress(AssertionError, KeyError):
                group.whole().machine()
                drawn[group.id] = group
    return list(drawn.values())


def _draw(seed: int) -> Iterator[dict[str, object]]:
    chance = random.Random(seed)
    many, moves = SEEDS[seed]
    broken = [mutant for mutant in breakages() if mutant.see]
    healthy = [mutant for mutant in variations() if mutant.change]
    rooms = {
        "broken": [broken] * many,
        "varied": [*[broken] * (many - 1), healthy],
        "healthy": [healthy] * 2,
    }
    for kind, count in _COUNTS.items():
        made: set[frozenset[str]] = set()
        while len(made) < count:
            rows = [chance.choice(room) for room in rooms[kind]]
            key = frozenset(row.id for row in rows)
            checks = [{check for _, check in row.see} for row in rows]
            if len({row.on for row in rows}) > 1 or len(key) < len(rows) or key in made:
                continue
            if sum(map(len, checks)) > len(set().union(*checks)):
                continue
            parts = [_move(row, chance) if moves else (row, None) for row in rows]
            try:
                group = Group(kind=cast("Kind", kind), parts=tuple(row for row, _ in parts))
                group.whole().machine()
            except (AssertionError, KeyError):  # what one took away, the other changes
                continue
            made.add(key)
            yield {
                "kind": kind,
                "parts": [[row.id, device] for row, (_, device) in zip(rows, parts, strict=True)],
            }


def _move(row: Mutant, chance: random.Random) -> tuple[Mutant, int | None]:
    device = chance.randrange(8)
    try:
        return move(row, device), device
    except (AssertionError, KeyError):
        return row, None


@click.command()
@click.argument("action", type=click.Choice(["draw", "judge"]))
@click.option("--seed", type=click.Choice([str(seed) for seed in SEEDS]))
def main(action: str, seed: str | None) -> None:
    for number in [int(seed)] if seed else SEEDS:
        if action == "draw":
            head = f"# Drawn by pairs.py with seed {number}: rows, and devices they are moved to.\n"
            text = yaml.safe_dump(list(_draw(number)), default_flow_style=None, sort_keys=False)
            (FOLDER / f"pairs-{number}.yaml").write_text(head + text, "utf-8")
            continue
        right = dict.fromkeys(_COUNTS, 0)
        for group in groups(number):
            faults = list(group.faults())
            right[group.kind] += not faults
            for fault in faults:
                click.echo(f"{group.kind} {group.id} ({group.parts[0].on}): {fault}")
        figures = "; ".join(f"{kind}: {right[kind]} of {_COUNTS[kind]}" for kind in _COUNTS)
        click.echo(f"seed {number}: {figures}")


if __name__ == "__main__":
    main()
