"""Several changes of a machine at once, drawn by a seed.

They are two or three rows of breakages.yaml, a breakage on a healthy variation, or two variations.
A breakage of one device is moved to a drawn device. The
label follows from those of the rows: each breakage is still named, and nobody is accused by a check
that accuses in none of them alone.
"""

import contextlib
import fnmatch
import functools
import hashlib
import json
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from ascend_doctor.findings import Level
from tests.level0.machine import machine
from tests.level0.mutants import Mutant, breakages, fresh, is_seen, news, variations
from tests.machines.compose import spread

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


def groups(seed: int) -> Iterator[Group]:
    """The first rows by a hash of the seed and their ids, each with the first that goes with it.

    A row that is added changes few groups.
    """
    many, moves = SEEDS[seed]
    broken = [mutant for mutant in breakages() if mutant.see]
    healthy = [mutant for mutant in variations() if mutant.change]
    rooms = {
        "broken": [broken] * many,
        "varied": [*[broken] * (many - 1), healthy],
        "healthy": [healthy] * 2,
    }
    for kind, count in _COUNTS.items():
        drawn: dict[frozenset[str], tuple[Mutant, ...]] = {}
        for first in _sort(seed, rooms[kind][0]):
            if parts := _begin(seed, first, rooms[kind][1:], moves=moves):
                drawn.setdefault(frozenset(part.id for part in parts), parts)
            if len(drawn) == count:
                break
        yield from (Group(kind=cast("Kind", kind), parts=parts) for parts in drawn.values())


def _sort(seed: int, room: list[Mutant], *before: Mutant) -> list[Mutant]:
    ids = [part.id for part in before]
    return sorted(room, key=lambda row: _draw(seed, *ids, row.id))


def _draw(seed: int, *words: str) -> bytes:
    return hashlib.sha256(" ".join((str(seed), *words)).encode()).digest()


def _begin(
    seed: int, first: Mutant, rooms: list[list[Mutant]], *, moves: bool
) -> tuple[Mutant, ...]:
    parts: tuple[Mutant, ...] = (_move(first, seed) if moves else first,)
    for room in rooms:
        for row in _sort(seed, room, *parts):
            more = (*parts, _move(row, seed) if moves else row)
            if _go_together(more):
                parts = more
                break
    return parts if len(parts) > len(rooms) else ()


def _go_together(parts: tuple[Mutant, ...]) -> bool:
    checks = [check for part in parts for check in {check for _, check in part.see}]
    if len({part.on for part in parts}) > 1 or len(checks) > len(set(checks)):
        return False
    if len({part.id for part in parts}) < len(parts):
        return False
    with contextlib.suppress(AssertionError, KeyError):  # what one takes away, the other changes
        Group(kind="broken", parts=parts).whole().machine()
        return True
    return False


def _move(row: Mutant, seed: int) -> Mutant:
    with contextlib.suppress(AssertionError, KeyError):
        return move(row, _draw(seed, row.id)[0] % 8)
    return row


def fresh_pairs(seed: int, count: int, file: str = "fresh") -> list[Group]:
    """Two rows of a file of kinds, of two kinds and checks, on one machine."""
    chance = random.Random(seed)
    rows = [mutant for mutant in fresh(file) if mutant.see]
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
