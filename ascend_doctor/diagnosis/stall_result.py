"""What is said of a launch that makes no progress."""

import re
from typing import Literal

import msgspec

from ascend_doctor.diagnosis.stacks import Frame

_LOCKS = re.compile(r"^with \w*lock|\.acquire\(", re.IGNORECASE)

Absence = Literal["stopped", "gone", "elsewhere", "other call", "not started", "working"]


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What the process of a rank shows.

    ``state`` is that of /proc/PID/stat ("T" stopped, "Z" ended), "gone" without a process,
    empty if unknown. ``lock_holder`` is a rank that holds a file lock this one waits for.
    ``ended``: how its process ended ("signal 9", "exit code 1"), if known. ``call`` and ``file``:
    the main thread's system call. ``source``: the text of the program's innermost line.
    ``moved``: its stack changed between looks; ``processor``: the share of one used meanwhile.
    ``npu``: it may use one.
    """

    state: str = ""
    lock_holder: int | None = None
    ended: str = ""
    call: str = ""
    file: str = ""
    source: str = ""
    moved: bool = False
    processor: float = 0.0
    npu: bool = True


class Standing(Seen, frozen=True, kw_only=True):
    """Where a rank is: ``frames`` of the main thread, innermost first, ``helpers`` of its forks.

    ``age``: seconds between the last seen frames and the stall's end; 0 for frames of the stall.
    """

    rank: int
    frames: tuple[Frame, ...] = ()
    helpers: tuple[tuple[Frame, ...], ...] = ()
    age: float = 0.0

    @property
    def locks(self) -> bool:
        return bool(_LOCKS.search(self.source))


class WaitingRanks(msgspec.Struct, frozen=True, kw_only=True):
    """Ranks in the ``number``-th operation of a group; ``waits_for``: members that are missing."""

    ranks: tuple[int, ...]
    operation: str
    number: int
    group: str
    group_ranks: tuple[int, ...]
    waits_for: tuple[int, ...] = ()
    line: str = ""


class AbsentRank(msgspec.Struct, frozen=True, kw_only=True):
    """An awaited rank that waits for none. ``call`` is what it called instead."""

    rank: int
    kind: Absence
    reason: str
    line: str = ""
    call: str = ""
    helpers: tuple[str, ...] = ()


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """The source line of a rank; ``age`` as in Standing."""

    rank: int
    line: str
    age: float = 0.0


class MismatchedCall(msgspec.Struct, frozen=True, kw_only=True):
    """What some ranks called where others called something else."""

    ranks: tuple[int, ...]
    operation: str
    agreed: str = ""
    line: str = ""


class Mismatch(msgspec.Struct, frozen=True, kw_only=True):
    """The first calls that differ. ``parted``: the first whose lines differ, if it is earlier."""

    group: str
    group_ranks: tuple[int, ...]
    number: int
    calls: tuple[MismatchedCall, ...]
    parted: tuple[MismatchedCall, ...] = ()


class Stall(msgspec.Struct, frozen=True, kw_only=True):
    """Who waits, in what, and who did not come; ``undecided`` says why no rank is named.

    ``silent`` are ranks of the job that no file mentions, though others wait for one. ``mismatch``
    is known of simulated NPUs.
    """

    ranks: tuple[int, ...]
    world_size: int | None
    waiting: tuple[WaitingRanks, ...] = ()
    absent: tuple[AbsentRank, ...] = ()
    undecided: str = ""
    silent: tuple[int, ...] = ()
    positions: tuple[Position, ...] = ()
    mismatch: Mismatch | None = None
