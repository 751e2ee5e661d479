"""HCCL's link set-up as the plogs of each process show it, from communicator to operator."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ascend_doctor.diagnosis.places import pid_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ascend_doctor.diagnosis.ledger import LogLine, Sighting

_VARIABLE = re.compile(r"(HCCL_[A-Z_]+)([^\[,]{0,60})(?:\[([^\]]*)\])?")
_KEPT = 1 << 17


class LinkEvent(NamedTuple):
    name: str
    words: tuple[str, ...]
    seen: Sighting

    @property
    def began(self) -> float | None:
        """When; what failed had begun before."""
        moment = None if "failed" in self.seen.text else self.seen.moment
        return moment.seconds if moment else None


@dataclass
class Links:
    """``reads``: shapes of lines (matrices/failures/hccl.yaml)."""

    reads: Mapping[str, str] = field(default_factory=dict)
    _events: dict[object, list[LinkEvent]] = field(default_factory=dict)
    _left: int = _KEPT

    def learn(self, row: LogLine) -> None:
        for name, shape in self.reads.items():
            if (match := re.search(shape, row.text)) and self._left:
                self._left -= 1
                event = LinkEvent(name, tuple(text or "" for text in match.groups()), row.sighting)
                self._events.setdefault(pid_of(row.origin) or row.origin, []).append(event)

    def members(self) -> Iterable[LinkMember]:
        return map(LinkMember, self._events.values())


def numbers(text: str) -> frozenset[int]:
    return frozenset(map(int, re.findall(r"0*(\d{1,9})", text)))


class LinkMember:
    """One process; times are seconds of its node's clock.

    ``entered``: rank, size and when, by group. ``variables``: value, and how it was set.
    ``tasks``: operator, index and count of the collective that failed, by group.
    """

    def __init__(self, events: list[LinkEvent]) -> None:
        self.origin = events[0].seen.origin
        self.first: dict[str, LinkEvent] = {}
        self.entered: dict[str, tuple[int, int, float | None]] = {}
        self.address = self.card = ""
        self.connected: frozenset[int] = frozenset()
        self.variables: dict[str, tuple[str, str]] = {}
        self.checks: dict[str, tuple[str, str]] = {}
        self.operators: dict[str, str] = {}
        self.tasks: dict[str, tuple[str, str, str]] = {}
        group = ""
        for event in events:
            self.first.setdefault(event.name, event)
            match event.name, event.words:
                case "enters", (size, rank, group, address, card):
                    self.address, self.card = address or self.address, card or self.card
                    began = self.entry(group)[2] or event.began
                    self.entered[group] = (int(rank), int(size), began)
                case "counts", (ranks,):
                    self.connected |= numbers(ranks)
                case "sets", (text,):
                    for name, how, value in _VARIABLE.findall(text):
                        own = "" if "default" in how or "not set" in how else how
                        self.variables.setdefault(name, (value or "not set", own))
                case "differs", (name, mine, theirs):
                    self.checks.setdefault(name, (mine, theirs))
                case "stands", (operator, group, index):
                    self.tasks.setdefault(group, (operator, index, ""))
                case "works", (index, count) if group in self.tasks:
                    operator, known, counted = self.tasks[group]
                    self.tasks[group] = (operator, known or index, counted or count)
                case "links", (_, operator, group):
                    self.operators.setdefault(group, operator)

    def entry(self, group: str) -> tuple[int, int, float | None]:
        return self.entered.get(group, (-1, 0, None))

    def at(self, event: str) -> float | None:
        known = self.first.get(event)
        return known.seen.moment.seconds if known and known.seen.moment else None

    def value(self, *events: str) -> str:
        """The first value of the first of these events."""
        shown = (self.first[event].words for event in events if event in self.first)
        return next((value for values in shown for value in values if value), "")

    def group_at(self, event: str) -> str:
        """The group that it had entered last before."""
        at = self.at(event)
        since = {group: began or 0 for group, (_, _, began) in self.entered.items()}
        before = [group for group, began in since.items() if at is None or began <= at]
        return max(before, key=since.__getitem__, default="")
