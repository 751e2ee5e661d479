"""Plogs of several runs in one folder or one file, told apart by who ended before who started."""

import functools
import io
import itertools
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from ascend_doctor.diagnosis.logs import Log, blocks
from ascend_doctor.diagnosis.origins import moment
from ascend_doctor.diagnosis.packed import stream_of
from ascend_doctor.errors import DataError
from ascend_doctor.machine.files import open_descriptor

_NAME = re.compile(r"(?:^|/)(?:plog|device)-(?P<pid>\d{1,12})_(?P<stamp>\d{14})\d*\.log")
_LINE = re.compile(rb"\[[A-Z]+\] ?[A-Z_]+\((\d{1,12}),[^)\n]{0,80}\):([\d-]{10}-[\d:]{8})")
_TAIL = 1 << 16
_HEAD = 256
# Who waits for a rank that starts later says so after HCCL_CONNECT_TIMEOUT, 120 s unless it is set.
_APART = 120.0
# Processes of one launch start within so many seconds, so their ends need no look.
_TOGETHER = 5.0


@dataclass
class _Process:
    start: float
    end: float = 0.0
    logs: list[Log] = field(default_factory=list)


def split_runs(logs: Sequence[Log]) -> list[tuple[str, list[Log]]]:
    """The logs of each run, the oldest first; other logs than plogs are of the newest.

    One without a name if all may be of one. Splits each node by itself, as clocks may differ.
    """
    nodes: dict[str, dict[str, _Process]] = {}
    others: list[Log] = []
    for log in logs:
        if match := _NAME.search(log.name):
            start = _seconds(match["stamp"])
            process = nodes.setdefault(log.origin.node, {}).setdefault(
                match["pid"], _Process(start=start)
            )
            process.start = min(process.start, start)
            process.logs.append(log)
        else:
            others.append(log)
    runs = [_split(list(processes.values())) for processes in nodes.values()]
    for log in others[:]:
        if len(parts := _split_file(log)) > 1:
            runs.append([[_Process(start=0.0, logs=[part])] for part in parts])
            others.remove(log)
    depth = max(map(len, runs), default=0)
    if depth <= 1:
        return [("", list(logs))]
    split = []
    for back in range(depth, 0, -1):
        members = [process for parts in runs if len(parts) >= back for process in parts[-back]]
        own = [log for process in members for log in process.logs]
        name = f"plogs of run {depth - back + 1} of {depth}"
        split.append((name, [*own, *others] if back == 1 else own))
    return split


def _split(processes: Sequence[_Process]) -> list[list[_Process]]:
    """Runs of one node: every process of a run ended before the first of the next one started."""
    rows = sorted(processes, key=lambda process: process.start)
    if not rows or rows[-1].start - rows[0].start < _TOGETHER:
        return [rows]
    for process in rows:
        process.end = max([process.start, *map(_last_second, process.logs)])
    runs = [rows[:1]]
    for number, process in enumerate(rows[1:], start=1):
        gap = process.start - max(earlier.end for earlier in rows[:number])
        # All have ended, and about as many start: a restart.
        again = len(rows) - number > len(runs[-1]) // 2 > 0
        if gap > 0 and (gap >= _APART or again):
            runs.append([])
        runs[-1].append(process)
    return runs


def _last_second(log: Log) -> float:
    last = 0.0
    try:
        for block in _ends(log):
            for row in block[-_TAIL:].decode("utf-8", "replace").splitlines()[::-1]:
                if stamp := moment(row[:_HEAD]):
                    last = max(last, stamp.seconds)
                    break
    except (DataError, OSError):
        pass
    return last


def _ends(log: Log) -> Iterator[bytes]:
    if log.opens is None and log.path is not None and log.name.endswith(".log"):
        with os.fdopen(open_descriptor(log.path), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            yield file.read(_TAIL)
    else:
        yield from blocks(log, [])


def _seconds(stamp: str) -> float:
    date, clock = f"{stamp[:4]}-{stamp[4:6]}-{stamp[6:8]}", stamp[8:14]
    known = moment(f"{date} {clock[:2]}:{clock[2:4]}:{clock[4:]}")
    return known.seconds if known else 0.0


def _split_file(log: Log) -> list[Log]:
    if log.path is None:
        return [log]
    try:
        stream = blocks(log, [])
        head = next(stream, b"")
        if not _LINE.match(head):
            return [log]
        seen: dict[str, _Process] = {}
        for block in itertools.chain((head,), stream):
            for pid, text in set(_LINE.findall(block)):
                stamp = moment(text.decode())
                if stamp is None:
                    continue
                process = seen.setdefault(pid.decode(), _Process(start=stamp.seconds))
                process.start = min(process.start, stamp.seconds)
                process.end = max(process.end, stamp.seconds)
    except DataError:
        return [log]
    runs: list[set[str]] = []
    latest = 0.0
    for pid, process in sorted(seen.items(), key=lambda row: row[1].start):
        if not runs or process.start - latest >= _APART:
            runs.append(set())
        runs[-1].add(pid)
        latest = max(latest, process.end)
    if len(runs) <= 1:
        return [log]
    return [replace(log, opens=functools.partial(_open, log, pids)) for pids in runs]


def _open(log: Log, pids: set[str]) -> io.BufferedReader:
    return stream_of(_own_lines(log, pids))


def _own_lines(log: Log, pids: set[str]) -> Iterator[bytes]:
    own = True
    for block in blocks(log, []):
        rows = []
        for row in block.splitlines(keepends=True):
            if match := _LINE.match(row):
                own = match[1].decode() in pids
            rows.append(row if own else b"\n")
        yield b"".join(rows)
