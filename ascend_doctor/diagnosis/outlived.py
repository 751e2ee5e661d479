"""Whether a run got over what its logs complain of, as docs/diagnose.md says."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from ascend_doctor.diagnosis.ledger import Gravity, LogLine, mask_numbers
from ascend_doctor.diagnosis.origins import moment
from ascend_doctor.diagnosis.working import RUN_END, counts_on

# So many lines after the complaint are looked at, from the end of the log, and so far into each.
_ROWS = 300
_REACH = 4096
# So many steps in a row are a training, answers a server, or lines a program that goes on.
_STEPS = 3
# And so many are a whole run, whose beginning the complaint did not end.
_WHOLE_RUN = 10
_ANSWERS = 3
_LINES = 10
_LAST = 5
# Standard output that goes into a file is written by the 8 KiB, at the end of a process as well.
_BUFFERS = 1 << 16
_LATER = 60.0

_ENDED, _JOB_ENDED, _PASSED, _STARTED, _SPOILED, _SERVES, _FAILED = (
    re.compile(RUN_END[name][0], re.IGNORECASE)
    for name in ("goodend", "jobend", "tested", "goodstart", "spoils", "served", "badend")
)


# The run got over it. Where it ended something for certain, that may have been a part of the run,
# or an earlier one in the same file.
Aftermath = Literal["stands", "survived", "harmless"]


@dataclass(frozen=True, kw_only=True)
class ErrorLine:
    """A line that reads like an error; the log had ``stop`` bytes where it ended."""

    stop: int
    gravity: Gravity
    line: LogLine


@dataclass
class ErrorLines:
    """The last complaint of each gravity, and the latest new text of those below fatal."""

    _last: dict[Gravity, ErrorLine] = field(default_factory=dict)
    _new: dict[Gravity, ErrorLine] = field(default_factory=dict)
    _texts: set[str] = field(default_factory=set)

    def add(self, gravity: Gravity, line: LogLine, stop: int) -> None:
        complaint = ErrorLine(stop=stop, gravity=gravity, line=line)
        self._last[gravity] = complaint
        text = mask_numbers(line.text)
        if text not in self._texts:
            self._texts.add(text)
            self._new[gravity] = complaint

    def judge(self, tail: bytes, size: int, *, full: bool) -> tuple[Aftermath, Gravity | None]:
        """What the end of a log leaves of its complaints; all if ``full``, not fully searched."""
        aftermath: Aftermath = "harmless"
        for gravity in sorted(self._last, reverse=True):
            left = "stands" if full else self._judge(gravity, tail, size)
            if left == "stands":
                return left, gravity
            aftermath = left if left == "survived" else aftermath
        return aftermath, max(self._last, default=None)

    def _judge(self, gravity: Gravity, tail: bytes, size: int) -> Aftermath:
        """A text that the run got over at first is no end of it later, if the run counts on."""
        last = self._last[gravity]
        left = judge(*_follow(tail, size, last))
        if left == "stands" and gravity < Gravity.FATAL and gravity in self._new:
            rest = tail[_start(tail, size, last) :]
            if counts_on(_rows(rest)):
                left = judge(*_follow(tail, size, self._new[gravity]))
        return left

    def start_in(self, tail: bytes, size: int) -> int:
        return max((_start(tail, size, last) for last in self._last.values()), default=0)


def _start(tail: bytes, size: int, complaint: ErrorLine) -> int:
    return max(complaint.stop - (size - len(tail)), 0)


def _follow(tail: bytes, size: int, complaint: ErrorLine) -> tuple[bytes, ErrorLine, int]:
    apart = max(size - len(tail) - complaint.stop, 0)
    return tail[_start(tail, size, complaint) :], complaint, apart


def ends_job(text: bytes) -> bool:
    return any(_says(_JOB_ENDED, row) for _, row in list(_rows(text))[-_LAST:])


def judge(rest: bytes, complaint: ErrorLine, apart: int) -> Aftermath:
    """What follows a complaint says of it, of ``rest``, which begins so many bytes ``apart``."""
    # A tail that does not begin at the complaint begins within a line, whose numbers are cut.
    rows = list(_rows(rest))[1 if apart else 0 :]
    steps = counts_on(rows)
    counted = len(steps) >= _STEPS
    # Whoever started the job knows better than its lines; a run that counts on logs others' exits.
    end = steps[-1][0] if counted else 0
    if any(_FAILED.search(row) for start, row in rows if start >= end):
        return "stands"
    if any(_says(_PASSED, row) for _, row in rows):
        return "harmless"
    outlived = any(_says(_ENDED, row) for _, row in rows)
    outlived |= sum(_SERVES.search(row) is not None for _, row in rows) >= _ANSWERS
    if complaint.gravity is Gravity.WORDS:
        outlived |= counted or apart > 0 or len(rows) >= _LINES
    elif complaint.gravity is Gravity.LEVEL:
        outlived |= counted or any(_says(_STARTED, row) for _, row in rows)
    elif counted:
        start, row = steps[-_STEPS]
        later = apart + start >= _BUFFERS or _is_later(row, complaint.line)
        outlived |= later
        if later and len(steps) >= _WHOLE_RUN:
            return "harmless"
    if not outlived:
        return "stands"
    return "survived" if complaint.gravity is Gravity.FATAL else "harmless"


def _is_later(row: str, line: LogLine) -> bool:
    before, after = line.sighting.moment, moment(row)
    return before is not None and after is not None and after.seconds - before.seconds >= _LATER


def _says(shape: re.Pattern[str], row: str) -> bool:
    return shape.search(row) is not None and _SPOILED.search(row) is None


def _rows(text: bytes) -> Iterator[tuple[int, str]]:
    rows = [row for row in re.finditer(rb"[^\r\n]+", text) if row[0].strip()][-_ROWS:]
    for row in rows:
        yield row.start(), row[0][:_REACH].decode("utf-8", "replace")
