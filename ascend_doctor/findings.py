"""What the doctor says: levels, remedies, findings."""

import enum
import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

import msgspec


@functools.total_ordering
class Level(enum.Enum):
    """Severity of a finding, in rising order. "Could not tell" is above a warning."""

    OK = "ok"
    SKIPPED = "skipped"
    WARNING = "warning"
    UNKNOWN = "unknown"
    ERROR = "error"

    @property
    def rank(self) -> int:
        return _ORDER[self]

    def __lt__(self, other: object) -> bool:
        return self.rank < other.rank if isinstance(other, Level) else NotImplemented


_BYTE_UNITS = ("B", "KiB", "MiB", "GiB")
_ORDER = {level: position for position, level in enumerate(Level)}


class Remedy(msgspec.Struct, frozen=True, kw_only=True):
    """What to do: ``commands`` for a POSIX shell, in order; ``step``: a provisioning step's id."""

    summary: str
    commands: tuple[str, ...] = ()
    step: str | None = None


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A place in a file of the user; line and column count from 1."""

    file: str
    line: int
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class Excerpt(msgspec.Struct, frozen=True, kw_only=True):
    """A place's line; ``column`` counts from 1, 0 if it moved as a part of the line is hidden."""

    line: str
    column: int = 0


# Reports are made elsewhere, and ids go into labels, attributes and commands of CI systems. The end
# is fixed twice: Python's $ also matches before a last line end.
CheckId = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9-]{1,64}$(?!\n)")]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One statement about one check. ``refs`` are sources: URLs or OWNER/REPO@REF:path.

    ``nodes`` are its machines of a fleet, ``location`` is what to change, ``excerpt`` the line
    there. For an unknown result, ``reason`` says why, and ``needs`` is "root" if root could
    tell, "values" if those of the launch could. ``because_of`` is the check whose error it
    follows from: fix that first. ``accepted`` is a warning that is an error unless the user
    took the stack with it.
    """

    check: CheckId = ""
    level: Level
    title: str
    observed: str = msgspec.field(name="found", default="")
    required: str = msgspec.field(name="wanted", default="")
    because: str = ""
    remedy: Remedy | None = None
    refs: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    devices: tuple[int, ...] = ()
    nodes: tuple[str, ...] = ()
    location: Place | None = msgspec.field(name="place", default=None)
    excerpt: Excerpt | None = None
    reason: str = ""
    needs: str = ""
    because_of: str = ""
    accepted: bool = False


def root_causes(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings without those that follow from an error among them."""
    listed = tuple(findings)
    failed = {finding.check for finding in listed if finding.level is Level.ERROR}
    return tuple(finding for finding in listed if finding.because_of not in failed)


def show_bytes(size: int) -> str:
    """Bytes in the unit that fits: "5.15 MiB"."""
    unit = min((size.bit_length() - 1) // 10, len(_BYTE_UNITS) - 1) if size else 0
    return f"{size / 1024**unit:.4g} {_BYTE_UNITS[unit]}"


def runs_of(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """The first and the last of each run of neighbours."""
    known = set(numbers)
    starts = sorted(number for number in known if number - 1 not in known)
    ends = sorted(number for number in known if number + 1 not in known)
    return zip(starts, ends, strict=True)


def spans(numbers: Iterable[int]) -> str:
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs_of(numbers))


def first_of(texts: Sequence[str], most: int, *, separator: str = ", ") -> str:
    shown = separator.join(texts[:most])
    return f"{shown} and {len(texts) - most} more" if len(texts) > most else shown


def quantity(number: int, noun: str, *, or_more: bool = False) -> str:
    if or_more:
        return f"{number} or more {noun}s"
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
