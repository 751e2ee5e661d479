"""What was seen in the logs, in memory that does not grow with them."""

import functools
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from enum import IntEnum

from ascend_doctor.diagnosis.clocks import Clocks
from ascend_doctor.diagnosis.exceptions import OTHER, Raised
from ascend_doctor.diagnosis.links import Links
from ascend_doctor.diagnosis.origins import Moment, Origin
from ascend_doctor.diagnosis.places import Places
from ascend_doctor.diagnosis.processes import Processes
from ascend_doctor.diagnosis.waiting import Party, Waiting

# More processes or different exceptions than these are counted but not told apart.
_ORIGINS = 4096
_KINDS = 256
_STEPS = 12

_VARYING = re.compile(r"0x[0-9a-f]+|\d+")
_SHORT = 160


def mask_numbers(text: str) -> str:
    return _VARYING.sub("#", text[:_SHORT])


class Gravity(IntEnum):
    """A line that has no more than words, one that a program calls an error, one that ends it."""

    WORDS = 1
    LEVEL = 2
    FATAL = 3


@dataclass(frozen=True, kw_only=True)
class Sighting:
    """One line. ``order`` counts files, then lines."""

    file: str
    line: int
    text: str
    origin: Origin
    moment: Moment | None
    order: tuple[int, int]

    @property
    def when(self) -> tuple[float, tuple[int, int]]:
        return (self.moment.seconds if self.moment else 0.0, self.order)

    def before(self, other: "Sighting") -> bool:
        """Whether this was first: by the clock across processes, by lines within one."""
        apart = self.file != other.file or (
            self.origin.named and other.origin.named and self.origin != other.origin
        )
        # Lines of one process are in the order of writing; its stamps may be missing or go back.
        if apart and self.moment and other.moment:
            return self.moment.seconds < other.moment.seconds
        return self.order < other.order


def earliest(sightings: Iterable[Sighting]) -> Sighting | None:
    known = list(sightings)
    if not known:
        return None
    timed = all(sighting.moment for sighting in known)
    return min(known, key=lambda sighting: sighting.when if timed else (0.0, sighting.order))


@dataclass
class LogLine:
    """A line that says something; ``text`` is without its launcher's prefixes.

    ``origin`` is its process, of all known of its ``writer``; ``around`` and others come on demand.
    """

    origin: Origin
    writer: Origin
    text: str
    whole: str
    look: Callable[[], Sighting]
    around: Callable[[], tuple[list[str], list[str]]] = lambda: ([], [])

    @functools.cached_property
    def sighting(self) -> Sighting:
        return self.look()


@dataclass
class Occurrences:
    """One kind of thing: how often, ``or_more``, and the first line of each process."""

    count: int = 0
    or_more: bool = False
    by_origin: dict[Origin, Sighting] = field(default_factory=dict)

    def add(self, row: LogLine) -> None:
        self.count += 1
        if row.origin not in self.by_origin and len(self.by_origin) < _ORIGINS:
            self.by_origin[row.origin] = row.sighting

    @property
    def first(self) -> Sighting:
        sighting = earliest(self.by_origin.values())
        if sighting is None:
            raise ValueError("nothing was seen")
        return sighting

    @property
    def ranks(self) -> set[int]:
        return {origin.rank for origin in self.by_origin if origin.rank is not None}

    def came_after(self, sighting: Sighting) -> bool:
        own = self.by_origin.get(sighting.origin)
        return own is None or sighting.before(own)


@dataclass
class Ended:
    """A process in torchrun's summary; ``first``: the one that it saw fail first.

    ``time`` is of its node's clock, to the second, "" if missing.
    """

    rank: int
    node: str
    sighting: Sighting
    first: bool
    code: int | None = None
    time: str = ""


@dataclass(frozen=True, kw_only=True)
class Waited:
    """The collective in which a rank's watchdog lost patience; ranks count in its group."""

    group_rank: int
    operation: str
    sighting: Sighting


@dataclass
class WatchdogReport:
    """torch_npu's watchdog about a group out of step; ``members`` are all it names.

    ``late`` did not join; ``busy`` joined what others had ended; ``paired`` last did what two do.
    """

    late: set[int] = field(default_factory=set)
    busy: set[int] = field(default_factory=set)
    paired: set[int] = field(default_factory=set)
    members: set[int] = field(default_factory=set)


@dataclass
class Ledger:
    files: int = 0
    lines: int = 0
    size: int = 0
    failures: dict[str, Occurrences] = field(default_factory=dict)
    exceptions: dict[str, Occurrences] = field(default_factory=dict)
    # By the order of their lines.
    raised: dict[tuple[int, int], Raised] = field(default_factory=dict)
    crashed: set[Origin] = field(default_factory=set)
    deaths: dict[str, Occurrences] = field(default_factory=dict)
    # What says that something is wrong, and not what: wrappers of exceptions, errors of glog.
    logged: dict[str, Occurrences] = field(default_factory=dict)
    unexplained: int = 0
    or_more_unexplained: bool = False
    # The gravest complaint of the logs that show nothing that outlives theirs.
    standing: Gravity | None = None
    survived: bool = False
    ended_well: bool = False
    # ("reported" | "acl" | "hccl", code), as matrices/error-codes.yaml has them.
    codes: dict[tuple[str, str], Occurrences] = field(default_factory=dict)
    # Those of them that stand in a line that no failure explains.
    unknown: set[tuple[str, str]] = field(default_factory=set)
    # Who is who, who waits for whom, and what each set up, as HCCL tells.
    processes: Processes = field(default_factory=Processes)
    waiting: Waiting = field(default_factory=Waiting)
    links: Links = field(default_factory=Links)
    lost: dict[str, Occurrences] = field(default_factory=dict)
    ended: dict[int, Ended] = field(default_factory=dict)
    first: Ended | None = None
    # What torchrun started, and its own Python.
    binary: str = ""
    launcher: str = ""
    _first: tuple[Sighting, int] | None = None
    # By process, where its own watchdog told; and by rank, once that is settled.
    timed_out: dict[Origin, Waited] = field(default_factory=dict)
    watched: dict[int, Waited] = field(default_factory=dict)
    world_size: int | None = None
    # Of cards, by node and device.
    serials: dict[tuple[str, int], str] = field(default_factory=dict)
    step: int | None = None
    # The last steps: the node and the time that the first log has of each.
    steps: dict[int, tuple[str, Moment | None]] = field(default_factory=dict)
    # The last line that shows the run getting on, or ended well.
    work: Sighting | None = None
    # Processes that raised where they handled a signal.
    signalled: set[Origin] = field(default_factory=set)
    # Processes of which there is a log of their own, and the folders where it lies.
    folders_of_logs: dict[Origin, set[str]] = field(default_factory=dict)
    reports: list[WatchdogReport] = field(default_factory=list)
    ranks: set[int] = field(default_factory=set)
    nodes: set[str] = field(default_factory=set)
    _known: set[tuple[Origin, int | None]] = field(default_factory=set)
    places: Places = field(default_factory=Places)
    clocks: Clocks = field(default_factory=Clocks)

    def counts(self, step: int, node: str, at: Moment | None) -> None:
        """A training step that a log shows."""
        self.step = max(step, self.step or 0)
        before = self.steps.setdefault(step, (node, at))[1]
        if at and (before is None or at.seconds < before.seconds):
            self.steps[step] = (node, at)
        if len(self.steps) > _STEPS:
            del self.steps[min(self.steps)]

    def failure(self, identity: str, row: LogLine) -> None:
        self.failures.setdefault(identity, Occurrences()).add(row)

    def raises(self, kind: str, row: LogLine, raised: Raised) -> None:
        """An exception; of those of one kind in a process that which ended it, else the first."""
        if len(self.raised) < _ORIGINS:
            self.raised[row.sighting.order] = raised
        if raised.escaped and not raised.wraps:
            self.crashed.add(row.origin)
        if kind == OTHER:
            return
        seen = self.failures.setdefault(kind, Occurrences())
        before = seen.by_origin.get(row.origin)
        if before and raised.escaped and not self.raised.get(before.order, raised).escaped:
            seen.by_origin[row.origin] = row.sighting
        seen.add(row)

    def forget_caught(self, kinds: Collection[str]) -> None:
        """Drop exceptions of these kinds that a process caught, where another one ended it."""
        for name in kinds:
            by_origin = self.failures[name].by_origin
            for origin in [origin for origin, seen in by_origin.items() if self.is_caught(seen)]:
                del by_origin[origin]
            if not by_origin:
                del self.failures[name]

    def find_raised(self, seen: Sighting) -> Raised | None:
        """The exception of a line, of a row of its message, or of its innermost frame."""
        file, line = seen.order
        for row in range(line + 3, line - 12, -1):
            if (raised := self.raised.get((file, row))) is None:
                continue
            last = raised.frames[-1:]
            framed = any(f.source == seen.text or f'File "{f.file}"' in seen.text for f in last)
            if row == line or seen.text in raised.message or framed:
                return raised
        return None

    def is_caught(self, seen: Sighting) -> bool:
        raised = self.raised.get(seen.order)
        own = bool(raised and raised.frames and not raised.escaped)
        return own and seen.origin in self.crashed

    def exception(self, text: str, row: LogLine, *, signalled: bool = False) -> None:
        if signalled and len(self.signalled) < _ORIGINS:
            self.signalled.add(row.origin)
        self.note(self.exceptions, text, row)

    def note(self, kinds: dict[str, Occurrences], text: str, row: LogLine) -> None:
        self.unexplained += 1
        _note(kinds, mask_numbers(text), row)

    def stands(self, gravity: Gravity) -> None:
        self.standing = max(self.standing or gravity, gravity)

    @property
    def outlived(self) -> bool:
        """Whether the run got over all that its logs complain of, without a report of an end.

        A rank prints nothing more of a job that another one says has ended well, nor does a
        file of errors alone.
        """
        if any((self.ended, self.lost, self.timed_out, self.reports)):
            return False
        return self.standing is None or (self.ended_well and not self.deaths)

    @property
    def shows_failure(self) -> bool:
        return any((self.exceptions, self.deaths, self.logged, self.codes, self.ended))

    @property
    def got_over_failure(self) -> bool:
        return self.survived or self.standing is Gravity.FATAL

    def forget(self, harmless: Collection[str]) -> list[Occurrences]:
        """Drop what the run got over, but for these failures; gives it, the gravest first."""
        dropped = [seen for name, seen in self.failures.items() if name not in harmless]
        dropped += [*self.exceptions.values(), *self.deaths.values(), *self.logged.values()]
        self.failures = {name: seen for name, seen in self.failures.items() if name in harmless}
        for kinds in (self.exceptions, self.deaths, self.logged):
            kinds.clear()
        self.codes.clear()
        return dropped

    def ends(self, ended: Ended, local: int, row: LogLine) -> None:
        self.places.pair(row.writer, rank=ended.rank, local=local, node=ended.node)
        self.places.know(ended.rank, node=ended.node)
        if ended.node and len(self.nodes) < _ORIGINS:
            self.nodes.add(ended.node)
        if ended.rank in self.ended or len(self.ended) < _ORIGINS:
            self.ended[ended.rank] = ended

    def exits(self, rank: int, code: int) -> None:
        self.ended[rank].code = code

    def first_ended(self, local_rank: int, code: int, row: LogLine) -> None:
        """The process that torchrun's agent saw fail first, known by its rank on its node."""
        if self._first is None:
            origin = replace(row.writer, rank=None, local=local_rank)
            self.places.add(origin)
            self._first = (replace(row.sighting, origin=origin), code)

    def waited(self, row: LogLine, *, group_rank: int, operation: str) -> None:
        if row.origin not in self.timed_out and len(self.timed_out) < _ORIGINS:
            self.timed_out[row.origin] = Waited(
                group_rank=group_rank, operation=operation, sighting=row.sighting
            )

    def rank(self, origin: Origin) -> int | None:
        rank = self.places.rank(origin)
        if rank is not None:
            return rank
        return self.processes.rank(origin)

    def without_log(self) -> set[int]:
        """Ranks without a log if each has one; empty if in several folders, or unknown."""
        size = self.job_size
        folders_of: dict[int, set[str]] = {}
        for origin, folders in self.folders_of_logs.items():
            rank = self.rank(origin)
            if rank is None:
                return set()
            folders_of.setdefault(rank, set()).update(folders)
        if not folders_of or any(len(folders) > 1 for folders in folders_of.values()):
            return set()
        logged = set(folders_of) | set(self.processes.by_rank())
        return (set(range(min(size, _ORIGINS))) | set(self.ended)) - logged

    def settle(self) -> None:
        self.clocks.settle()
        self.processes.settle(self.world_size)
        self.processes.complete(origin for origin, _ in self._known)
        for number, process in self.processes.by_rank().items():
            self.places.know(
                number, node=process.key[0], device=process.card, server=process.server
            )
        self.places.settle(self.job_size)
        self.ranks |= set(self.processes.by_rank())
        self.ranks |= self.places.ranks()
        kinds = (self.failures, self.exceptions, self.deaths, self.logged, self.lost)
        for seen in (
            *(seen_of_kind for kind in kinds for seen_of_kind in kind.values()),
            *self.codes.values(),
        ):
            settled: dict[Origin, Sighting] = {}
            for ranked in map(self._settle_origin, seen.by_origin.values()):
                settled.setdefault(ranked.origin, ranked)
            seen.by_origin = settled
        for origin, waited in self.timed_out.items():
            if (rank := self.rank(origin)) is not None:
                self.watched.setdefault(rank, waited)
        if self._first:
            sighting, code = self._first
            first = self._settle_origin(sighting)
            if (rank := first.origin.rank) is not None:
                self.first = Ended(rank=rank, node="", sighting=first, first=True, code=code)
        self.waiting.settle(self.processes, self.rank, self.job_size)

    @property
    def job_size(self) -> int:
        return self.world_size or self.processes.world_size

    def in_order(self, sightings: Iterable[Sighting]) -> bool:
        return self.clocks.comparable(sighting.origin.node for sighting in sightings)

    def first_error_of(self, ranks: Collection[Party], *, logged: str = "") -> Sighting | None:
        """After `settle`; logged errors have to match."""
        texts = (seen for seen in self.logged.values() if re.match(logged, seen.first.text))
        return earliest(
            sighting
            for seen in (*self.exceptions.values(), *self.deaths.values(), *texts)
            for origin, sighting in seen.by_origin.items()
            if origin.rank in ranks
        )

    def serial(self, node: str, device: int | None) -> str:
        return "" if device is None else self.serials.get((node, device), "")

    def has_log(self, party: Party) -> bool:
        return party in self.ranks if isinstance(party, int) else " pid " in f" {party}"

    def _settle_origin(self, sighting: Sighting) -> Sighting:
        origin, moment = sighting.origin, sighting.moment
        if moment and (apart := self.clocks.offsets.get(origin.node)):
            moment = replace(moment, seconds=moment.seconds - apart)
            sighting = replace(sighting, moment=moment)
        rank = self.rank(origin)
        if rank is None or origin.rank is not None:
            return sighting
        settled = replace(origin, rank=rank, local=None, launcher="", task=None)
        return replace(sighting, origin=settled)

    def report(self) -> WatchdogReport:
        new = WatchdogReport()
        if len(self.reports) < _ORIGINS:
            self.reports.append(new)
        return new

    def lose(self, peer: str, row: LogLine) -> None:
        """A peer whose heartbeat stopped, as address/device."""
        _note(self.lost, peer, row)

    def code(self, kind: str, code: str, row: LogLine, *, known: bool) -> None:
        if not known and len(self.unknown) < _KINDS:
            self.unknown.add((kind, code))
        if (kind, code) in self.codes or len(self.codes) < _KINDS:
            self.codes.setdefault((kind, code), Occurrences()).add(row)

    def origin(self, origin: Origin) -> None:
        known = (origin, origin.device)
        if known in self._known:
            return
        if len(self._known) < _ORIGINS:
            self._known.add(known)
        self.places.add(origin)
        if origin.rank is not None and len(self.ranks) < _ORIGINS:
            self.ranks.add(origin.rank)
        if origin.node and len(self.nodes) < _ORIGINS:
            self.nodes.add(origin.node)


def _note(kinds: dict[str, Occurrences], key: str, row: LogLine) -> None:
    if key in kinds or len(kinds) < _KINDS:
        kinds.setdefault(key, Occurrences()).add(row)
