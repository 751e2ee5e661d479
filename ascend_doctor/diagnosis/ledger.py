"""What was seen in the logs, in memory that does not grow with them."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ascend_doctor.diagnosis.origins import Moment, Origin

# More processes or different exceptions than these are counted but not told apart.
_ORIGINS = 4096
_KINDS = 256

_VARYING = re.compile(r"0x[0-9a-f]+|\d+")
_SHORT = 160


@dataclass(frozen=True, kw_only=True)
class Sighting:
    """One line. ``order`` counts files, then lines."""

    file: str
    line: int
    text: str
    origin: Origin
    moment: Moment | None
    order: tuple[int, int]

    def before(self, other: Sighting) -> bool:
        """Whether this was first: by the clock across processes, by lines within one."""
        apart = self.file != other.file or (
            self.origin.named and other.origin.named and self.origin != other.origin
        )
        if apart and self.moment and other.moment:
            return self.moment.seconds < other.moment.seconds
        return self.order < other.order


def earliest(sightings: Iterable[Sighting]) -> Sighting | None:
    """The first of all, by the clock where all have one."""
    found = list(sightings)
    if not found:
        return None
    if all(one.moment for one in found):
        return min(found, key=lambda one: (one.moment.seconds if one.moment else 0.0, one.order))
    return min(found, key=lambda one: one.order)


@dataclass
class Row:
    """A line that says something. What is known of it is worked out when it is asked for."""

    origin: Origin
    text: str
    look: Callable[[], Sighting]

    @functools.cached_property
    def sighting(self) -> Sighting:
        return self.look()


@dataclass
class Seen:
    """One kind of thing: how often, and the first line of each process."""

    count: int = 0
    by_origin: dict[Origin, Sighting] = field(default_factory=dict)

    def add(self, row: Row) -> None:
        self.count += 1
        if row.origin not in self.by_origin and len(self.by_origin) < _ORIGINS:
            self.by_origin[row.origin] = row.sighting

    @property
    def first(self) -> Sighting:
        found = earliest(self.by_origin.values())
        if found is None:
            raise ValueError("nothing was seen")
        return found

    @property
    def ranks(self) -> set[int]:
        return {one.rank for one in self.by_origin if one.rank is not None}


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A process as torchrun's summary names it: the first one that failed."""

    rank: int | None
    node: str
    code: int | None
    sighting: Sighting


@dataclass
class Ledger:
    """Everything that the conclusion is drawn from."""

    files: int = 0
    lines: int = 0
    size: int = 0
    failures: dict[str, Seen] = field(default_factory=dict)
    endings: dict[str, Seen] = field(default_factory=dict)
    # Exceptions that no failure explains, by their text without numbers.
    exceptions: dict[str, Seen] = field(default_factory=dict)
    deaths: dict[str, Seen] = field(default_factory=dict)
    # What says that something is wrong, and not what: wrappers of exceptions, errors of glog.
    logged: dict[str, Seen] = field(default_factory=dict)
    # ("reported" | "acl" | "hccl", code), as matrices/error-codes.yaml has them.
    codes: dict[tuple[str, str], Seen] = field(default_factory=dict)
    # Those of them that stand in a line that no failure explains.
    unknown: set[tuple[str, str]] = field(default_factory=set)
    # Who waits for whom, as HCCL tells, and who never came.
    waits: set[tuple[int, int]] = field(default_factory=set)
    absent: set[int] = field(default_factory=set)
    lost: dict[str, Seen] = field(default_factory=dict)
    ended: Ended | None = None
    world_size: int | None = None
    ranks: set[int] = field(default_factory=set)
    nodes: set[str] = field(default_factory=set)

    def failure(self, identity: str, row: Row) -> None:
        self.failures.setdefault(identity, Seen()).add(row)

    def ends_with(self, identity: str, row: Row) -> None:
        """A log whose last line shows that failure."""
        self.endings.setdefault(identity, Seen()).add(row)

    def exception(self, text: str, row: Row) -> None:
        _note(self.exceptions, _VARYING.sub("#", text[:_SHORT]), row)

    def death(self, text: str, row: Row) -> None:
        _note(self.deaths, _VARYING.sub("#", text[:_SHORT]), row)

    def log(self, text: str, row: Row) -> None:
        _note(self.logged, _VARYING.sub("#", text[:_SHORT]), row)

    def lose(self, place: str, row: Row) -> None:
        """A peer whose heartbeat stopped, as address/device."""
        _note(self.lost, place, row)

    def code(self, kind: str, code: str, row: Row, *, known: bool) -> None:
        """A code; ``known`` where a failure explains its line."""
        if not known and len(self.unknown) < _KINDS:
            self.unknown.add((kind, code))
        if (kind, code) in self.codes or len(self.codes) < _KINDS:
            self.codes.setdefault((kind, code), Seen()).add(row)

    def origin(self, origin: Origin) -> None:
        if origin.rank is not None and len(self.ranks) < _ORIGINS:
            self.ranks.add(origin.rank)
        if origin.node and len(self.nodes) < _ORIGINS:
            self.nodes.add(origin.node)


def _note(kinds: dict[str, Seen], key: str, row: Row) -> None:
    if key in kinds or len(kinds) < _KINDS:
        kinds.setdefault(key, Seen()).add(row)
