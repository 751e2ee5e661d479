"""One probe of a launch: its records, what its ranks printed, and what that comes to."""

import re
import time
from collections.abc import Iterable, Iterator

import msgspec

from ascend_doctor.machine.waiting import Deadline, describe_load
from ascend_doctor.probe_results import ProbeResult, ProbeRun
from ascend_doctor.probing.processes import Tail
from ascend_doctor.probing.records import Record
from ascend_doctor.probing.request import ProbeRequest, not_started

# torchrun's summary of failed ranks (torch/distributed/elastic/multiprocessing/errors/__init__.py,
# _FAILURE_FORMAT_TEMPLATE), the only source of their exit codes.
_FAILURES = re.compile(
    r"^  rank +: (?P<rank>\d{1,6}) \(local_rank: \d+\)\s*^  exitcode +: (?P<code>-?\d{1,6}) ",
    re.MULTILINE,
)


class ProbeSlot:
    """One probe of a launch. ``begin`` starts its clock."""

    def __init__(self, request: ProbeRequest, folder: str) -> None:
        self.request = request
        self.folder = folder
        self.tails = [Tail() for _ in request.ranks]
        self._wait: Deadline | None = None
        self._start = self._end_of_all = 0.0
        self._records = [Record(folder, rank) for rank in request.ranks]
        self._silent: dict[int, float | None] = {}

    @property
    def started(self) -> bool:
        return any(record.started for record in self._records)

    @property
    def ended(self) -> bool:
        return all(record.ended for record in self._records)

    @property
    def well(self) -> bool:
        return all(record.result(0.0).ok for record in self._records)

    def time_left(self, pid: int) -> float:
        """Seconds left for the processes beneath ``pid``, 0 after the deadline."""
        if self._wait is None:
            ceiling = self._end_of_all - time.monotonic()
            self._wait = Deadline(self.request.deadline, pid, ceiling=ceiling)
        return self._wait.time_left()

    @property
    def pids(self) -> Iterator[int]:
        return (record.pid for record in self._records if record.pid is not None)

    def begin(self, end_of_all: float) -> None:
        self._start, self._end_of_all = time.monotonic(), end_of_all
        left = end_of_all - self._start
        if left < self.request.deadline:
            self.request = msgspec.structs.replace(self.request, deadline=left, shortened=True)

    def read(self) -> Iterator[tuple[int, str, float]]:
        for record in self._records:
            for stage, at in record.read():
                yield record.rank, stage, at

    def note_silence(self, now: float) -> None:
        self._silent = {record.rank: record.silent(now) for record in self._records}

    def run(
        self,
        now: float,
        *,
        exit_code: int | None,
        timed_out: bool,
        launcher: Tail,
        left_behind: tuple[int, ...] = (),
    ) -> ProbeRun:
        """What is known of it. ``now``: the time of day of its end."""
        wait = self._wait
        return msgspec.structs.replace(
            not_started(self.request, ""),
            shortened=self.request.shortened or bool(wait and wait.is_cut),
            delayed=round(wait.delayed, 3) if wait else 0.0,
            load=describe_load() if wait and wait.is_busy else "",
            exit_code=exit_code,
            timed_out=timed_out,
            ranks=tuple(self._ranks(now, exit_code, launcher.text)),
            missing=tuple(record.rank for record in self._records if not record.started),
            output=launcher.last_lines,
            seconds=round(time.monotonic() - self._start, 3),
            left_behind=left_behind,
        )

    def _ranks(self, now: float, code: int | None, summary: str) -> Iterable[ProbeResult]:
        codes = {int(m["rank"]): int(m["code"]) for m in _FAILURES.finditer(summary)}
        if not self.request.torchrun and code is not None:
            codes = {self.request.ranks[0]: code}
        for record, tail in zip(self._records, self.tails, strict=True):
            if record.started:
                yield msgspec.structs.replace(
                    record.result(now),
                    exit_code=codes.get(record.rank),
                    silent=self._silent.get(record.rank),
                    idle=self._wait.idle(record.pid) if self._wait and record.pid else None,
                    output=tail.last_lines,
                )
