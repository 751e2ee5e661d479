"""What a diagnosis says; every format is a rendering of it."""

from typing import Literal

import msgspec

from ascend_doctor.diagnosis.stall_result import Stall
from ascend_doctor.findings import Finding

SCHEMA = 1

Action = Literal["restart", "exclude", "stop", "unknown"]
Fault = Literal["hardware", "software", "communication", "scheduler", "signal", "unknown"]

Outcome = Literal[
    "known failure", "unknown error", "stalled", "nothing known found", "could not tell"
]


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a log, without its launcher's prefix. ``time`` is "MM-DD HH:MM:SS".

    ``local_rank`` is set if ``rank``, that in the job, is unknown.
    """

    file: str
    line: int
    text: str
    rank: int | None = None
    local_rank: int | None = None
    node: str = ""
    process: str = ""
    time: str = ""


class Consequence(msgspec.Struct, frozen=True, kw_only=True):
    """A failure that another one explains: its wrapper, or what followed from it."""

    id: str
    title: str
    count: int
    or_more: bool = False


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """A known failure. ``caught_by`` are checks that would have found it before.

    ``or_more``, here and below: a log had so many such lines that the rest was not counted.
    """

    id: str
    title: str
    severity: Literal["fatal", "degraded"]
    cause: str
    fix: str
    affected: str
    before: str
    caught_by: tuple[str, ...]
    sources: tuple[str, ...]
    count: int
    or_more: bool = False
    ranks: tuple[int, ...]
    evidence: tuple[Evidence, ...]
    consequences: tuple[Consequence, ...] = ()


class Guilt(msgspec.Struct, frozen=True, kw_only=True):
    """Who began it. ``sure`` is False if it follows from what the others did not say.

    ``ranks`` are those in the job, ``local_ranks`` those on their nodes, ``devices`` those that
    the logs name; each is empty unless the logs have all of them. ``nodes`` have the names of
    the logs, ``servers`` those of HCCL, both of all accused. ``serials`` are the serial numbers
    of the devices, if npu-smi's output is beside the logs. ``end``: what ended HCCL's link set-up,
    with its ``facts`` and what to type to ``fix`` it.
    """

    ranks: tuple[int, ...] = ()
    local_ranks: tuple[int, ...] = ()
    devices: tuple[int, ...] = ()
    nodes: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    serials: tuple[str, ...] = ()
    processes: tuple[str, ...] = ()
    reason: str
    end: str = ""
    facts: str = ""
    fix: str = ""
    sure: bool = True
    evidence: Evidence | None = None


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """A message that means no harm."""

    id: str
    title: str
    count: int
    or_more: bool = False


class Unexplained(msgspec.Struct, frozen=True, kw_only=True):
    """An unexplained exception or death. ``reading``: the kind of an exception and its place."""

    kind: Literal["exception", "death", "code", "logged"]
    count: int
    or_more: bool = False
    ranks: tuple[int, ...]
    evidence: Evidence
    reading: str = ""


class Code(msgspec.Struct, frozen=True, kw_only=True):
    """A code of CANN, its runtime (``acl``) or HCCL; no ``meaning`` where none is documented."""

    kind: Literal["reported", "acl", "hccl"]
    code: str
    meaning: str
    count: int
    or_more: bool = False
    evidence: Evidence


class RankEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The first failure of a rank in the logs, and the ranks it waits for.

    ``failure`` is the id of the catalogue, empty if it has none. ``evidence`` is None for a
    rank that only waits. ``after`` are seconds since the run's first failure, if the clocks
    allow. ``waits_for`` are numbers of ranks, or names of processes without one.
    """

    rank: int
    failure: str = ""
    evidence: Evidence | None = None
    after: float | None = None
    waits_for: tuple[str, ...] = ()


class StepSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A training step; ``after`` as of a rank, negative before the run's first failure."""

    step: int
    after: float | None = None


class NotRead(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    reason: str


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """An earlier run of the job, as far as a verdict needs it.

    ``failure`` is the id of its root cause, or the words of its first error, empty if nothing
    failed. ``nodes`` are the accused ones; ``step`` is the last in its logs.
    """

    name: str
    failure: str = ""
    fault: Fault = "unknown"
    action: Action = "unknown"
    nodes: tuple[str, ...] = ()
    step: int | None = None


class JobVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a scheduler should do about the failure.

    ``nodes`` are those to leave out, only for the action ``exclude``. ``suspects`` are accused
    of what need not be theirs. ``unknown`` is "could not tell". ``attempts`` are the known
    earlier runs, the oldest first.
    """

    action: Action
    fault: Fault = "unknown"
    nodes: tuple[str, ...] = ()
    suspects: tuple[str, ...] = ()
    reason: str
    attempts: tuple[Attempt, ...] = ()


class Suspect(msgspec.Struct, frozen=True, kw_only=True):
    """A line that a good run lacks; ``good``: the line that it has with another value."""

    evidence: Evidence
    good: str = ""


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the logs say. ``causes`` has the root cause first.

    ``undecided`` is what the logs say of a time-out without a ``guilty``. ``error_lines`` counts
    unexplained lines that read like an error; ``or_more_error_lines``: counting stopped in a log.
    ``outlived`` has the first of ``outlived_lines``, as of an error that the run got over.
    ``now`` is what its checks find on this machine, if asked. ``paste`` is for a bug report.
    ``attempt`` is the number of the last run in the logs, ``step`` its last training step,
    ``exit_status`` its known one. ``work`` is the last line that shows progress or a good end;
    without it no run is fine. ``stall`` is from dumps and stacks. ``without_log`` are ranks that
    lack one among logs of all. ``timeline`` has the ranks that failed or wait,
    the first to fail first, ``steps`` the last training steps. ``excerpt`` are numbered lines round
    the cause's. ``suspects``: lines that a good run lacks.
    """

    schema: int = SCHEMA
    kind: Literal["diagnosis"] = "diagnosis"
    tool_version: str
    redacted: bool = False
    outcome: Outcome
    exit_code: int
    logs: int
    lines: int
    bytes: int
    ranks: tuple[int, ...]
    nodes: tuple[str, ...]
    world_size: int | None
    without_log: tuple[int, ...] = ()
    stall: Stall | None = None
    causes: tuple[Cause, ...] = ()
    verdict: JobVerdict | None = None
    attempt: str = ""
    step: int | None = None
    exit_status: int | None = None
    work: Evidence | None = None
    guilty: Guilt | None = None
    undecided: str = ""
    first_error: Evidence | None = None
    unexplained: tuple[Unexplained, ...] = ()
    error_lines: int = 0
    or_more_error_lines: bool = False
    outlived: tuple[Evidence, ...] = ()
    outlived_lines: int = 0
    codes: tuple[Code, ...] = ()
    timeline: tuple[RankEvent, ...] = ()
    steps: tuple[StepSeen, ...] = ()
    excerpt: tuple[tuple[int, str], ...] = ()
    suspects: tuple[Suspect, ...] = ()
    benign: tuple[Counted, ...] = ()
    not_read: tuple[NotRead, ...] = ()
    now: tuple[Finding, ...] = ()
    paste: str = ""
    seconds: float = 0.0
