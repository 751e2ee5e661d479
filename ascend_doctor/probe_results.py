"""What a probe leaves behind: one result per rank, one run per launch."""

import re
from typing import Any

import msgspec

from ascend_doctor.errors import Unknown
from ascend_doctor.probe_records.common import ProbeRecord, Record, read_record

SCHEMA = 1
# gloo and c10d as seen with torch 2.13, HCCL's EI0002 (notify wait), EI0006 (socket) and EI0015
# (ranks that never joined). torch_npu's function AclrtSynchronizeStreamWithTimeout does not match.
TIMEOUT = r"(?i:\btimed?[ -]?out)|EI0002|EI0006|EI0015"


class Wrong(msgspec.Struct, frozen=True, kw_only=True):
    """A value that differs from the exact one, both as text."""

    what: str
    got: str = ""
    expected: str = msgspec.field(name="wanted", default="")


class ProbeResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one rank of one probe.

    ``stage`` is the last stage that the rank entered, ``stages`` the seconds in each, in their
    order. ``ok`` is None without a result. ``values`` are measurements by name, as the probe
    wrote them: read them as a ``record``. ``compared`` counts the compared values, ``wrong``
    are those that differ. ``error`` is the innermost exception as "Type: text"; ``seconds`` is
    the time in the probe. ``exit_code`` is negative for a signal, None if unknown. ``silent``
    are the seconds without a sign of life at the end of a run that timed out, ``idle`` those in
    which it waited for no processor either; None if unknown. ``output`` are the rank's last lines,
    ``stack`` has its threads at a crash or at the end.
    """

    schema: int = SCHEMA
    probe: str = ""
    rank: int = 0
    world_size: int = 1
    host: str = ""
    stage: str = ""
    stages: dict[str, float] = {}
    ok: bool | None = None
    skipped: str = ""
    values: dict[str, Any] = {}
    compared: int = 0
    wrong: tuple[Wrong, ...] = ()
    error: str = ""
    traceback: str = ""
    seconds: float | None = None
    exit_code: int | None = None
    silent: float | None = None
    idle: float | None = None
    output: str = ""
    stack: str = ""

    def record(self, kind: type[Record]) -> Record:
        """The measurements. Raises Unknown if they have another form than the probe writes."""
        try:
            return read_record(kind, self.values)
        except ValueError as error:
            raise Unknown(f"the record is damaged: {error}") from error

    def record_or_none(self, kind: type[Record]) -> Record | None:
        try:
            return read_record(kind, self.values)
        except ValueError:
            return None


class ProbeRun(msgspec.Struct, frozen=True, kw_only=True):
    """One launch. ``missing`` are ranks without a record, ``output`` the launcher's last lines.

    ``argv`` repeats the probe by hand. ``exit_code`` is negative for a signal,
    None if the launch never ended by itself. ``shortened``: the total time-out left less than the
    probe's own ``deadline``. ``delayed`` are the seconds that it waited for a processor, ``load``
    is set if that was long. ``first_try``: how it timed out before. ``left_behind`` are processes
    that survived SIGKILL. ``not_started``: why a requested probe did not run. ``failed_after``: how
    it ended in processes that others had used, if better in its own.
    """

    probe: str
    device: str = ""
    world_size: int = 1
    argv: tuple[str, ...] = ()
    exit_code: int | None = None
    timed_out: bool = False
    deadline: float = 0.0
    shortened: bool = False
    ranks: tuple[ProbeResult, ...] = ()
    missing: tuple[int, ...] = ()
    output: str = ""
    seconds: float = 0.0
    delayed: float = 0.0
    load: str = ""
    first_try: str = ""
    left_behind: tuple[int, ...] = ()
    not_started: str = ""
    failed_after: str = ""
    simulated: bool = False

    @property
    def blocks(self) -> str:
        """Why no dependent probe can run, "" if it can."""
        if self.not_started:
            return self.not_started
        for rank in self.ranks:
            record = rank.record_or_none(ProbeRecord)
            if record and record.blocks:
                return record.blocks
        complete = not self.missing and all(rank.ok and not rank.wrong for rank in self.ranks)
        return "" if complete else f"the probe {self.probe} failed"

    def first_record(self, kind: type[Record]) -> Record:
        """The first rank's measurements; empty without ranks. Raises Unknown as ranks do."""
        return self.ranks[0].record(kind) if self.ranks else kind()

    @property
    def is_late(self) -> bool:
        errors = (rank.error for rank in self.ranks)
        return self.timed_out or self.has_late_part or any(re.search(TIMEOUT, e) for e in errors)

    @property
    def has_late_part(self) -> bool:
        records = (rank.record_or_none(ProbeRecord) for rank in self.ranks)
        return any(record is not None and record.late for record in records)

    @property
    def where(self) -> str:
        ranks = self.world_size
        return f"1 rank on {self.device}" if ranks == 1 else f"{ranks} ranks on {self.device}"

    @property
    def compared(self) -> int:
        return sum(rank.compared for rank in self.ranks)

    @property
    def sound(self) -> bool:
        return not (self.timed_out or self.not_started or self.missing) and all(
            rank.ok and not rank.wrong for rank in self.ranks
        )
