"""Many reports become one: read, counted and compared in one pass, so that memory stays small."""

from __future__ import annotations

import os
import sys
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from ascend_doctor.checks.probes.pair_rounds import PROBE
from ascend_doctor.comparison.comparable import ComparedSetting, settings
from ascend_doctor.errors import DataError
from ascend_doctor.facts import SCHEMA as FACTS_SCHEMA
from ascend_doctor.facts import Snapshot
from ascend_doctor.findings import Finding, Level
from ascend_doctor.fleet.outliers import figures
from ascend_doctor.fleet.rounds import Rounds, own_exit_code, own_worst
from ascend_doctor.judging.subjects import Subject
from ascend_doctor.machine.files import walk_folders
from ascend_doctor.machine.kinds import HEAD_BYTES, REPORT, explain, recognise_content
from ascend_doctor.machine.parsing import JSON_BYTES
from ascend_doctor.machine.report_archive import ENDING, FOLDER, read_report_bytes
from ascend_doctor.machine.syntax import describe_json
from ascend_doctor.report import SCHEMA, Node, Unreadable, Verdict
from ascend_doctor.timestamps import Timestamp, seconds

# What a merged report tells of a node; thousands of good results would hide it.
_SHOWN = (Level.ERROR, Level.UNKNOWN, Level.WARNING)


class NodeReport(msgspec.Struct, frozen=True, kw_only=True):
    """What merging needs of a report; the rest of the file is skipped."""

    schema: int
    tool_version: str
    host: str
    taken_at: Timestamp
    simulated: bool
    redacted: bool
    verdict: Verdict
    findings: tuple[Finding, ...]
    snapshot: Snapshot
    subjects: tuple[Subject, ...] = ()


class Complaint(NamedTuple):
    """What is the same finding on several machines."""

    check: str
    level: Level
    title: str


class Figure(NamedTuple):
    """One measurement of one machine; ``name`` is probe, rank if several, and value."""

    node: int
    value: float


@dataclass
class Merged:
    """The sum of all reports. Machines are numbers into ``nodes``.

    ``own_codes`` leave out what machines say about others, as do the levels of nodes.
    """

    nodes: list[Node] = field(default_factory=list)
    unreadable: list[Unreadable] = field(default_factory=list)
    duplicates: list[str] = field(default_factory=list)
    redacted: int = 0
    settings: dict[ComparedSetting, dict[str, array[int]]] = field(default_factory=dict)
    sections: dict[str, array[int]] = field(default_factory=dict)
    complaints: dict[Complaint, array[int]] = field(default_factory=dict)
    examples: dict[Complaint, Finding] = field(default_factory=dict)
    addresses: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    figures: dict[str, list[Figure]] = field(default_factory=lambda: defaultdict(list))
    rounds: Rounds = field(default_factory=Rounds)
    own_codes: dict[int, int] = field(default_factory=dict)
    subjects: dict[str, Counter[Level]] = field(default_factory=lambda: defaultdict(Counter))

    def names(self, numbers: Iterable[int]) -> tuple[str, ...]:
        return tuple(self.nodes[number].name for number in numbers)

    def add(self, name: str, file: str, report: NodeReport, stack: frozenset[str]) -> None:
        number = len(self.nodes)
        shared = self.rounds.add(name, report.snapshot.probes)
        self.nodes.append(
            Node(
                name=name,
                file=file,
                taken_at=report.taken_at,
                exit_code=report.verdict.exit_code,
                worst=own_worst(report.findings) if shared else report.verdict.worst,
                simulated=report.simulated,
            )
        )
        self.redacted += report.redacted
        for subject in report.subjects:
            self.subjects[subject.name][subject.level] += 1
        for setting, value in settings(report.snapshot, stack).items():
            # The same few values come thousands of times: one text each, and numbers of four bytes.
            _at(self.settings.setdefault(setting, {}), sys.intern(value)).append(number)
        for section in {setting.section for setting in self.settings}:
            if getattr(report.snapshot, section) is not None:
                _at(self.sections, section).append(number)
        if shared:
            self.own_codes[number] = own_exit_code(report.verdict.exit_code, report.findings)
        for finding in report.findings:
            if finding.level in _SHOWN and not (shared and finding.check == PROBE):
                key = Complaint(finding.check, finding.level, finding.title)
                self.examples.setdefault(key, finding)
                known = _at(self.complaints, key)
                # A machine counts once, on however many ranks.
                if not known or known[-1] != number:
                    known.append(number)
        # Pseudonyms of addresses are only equal under the same key.
        if not report.redacted:
            self._add_addresses(number, report.snapshot)
        self._add_figures(number, report.snapshot)

    def _add_addresses(self, number: int, facts: Snapshot) -> None:
        for device in facts.hccn.devices if facts.hccn else ():
            if device.address:
                self.addresses.setdefault(device.address, []).append(
                    (number, f"NPU {device.device}")
                )

    def _add_figures(self, number: int, facts: Snapshot) -> None:
        for run in facts.probes:
            for result in run.ranks:
                for name, value in figures(result.values):
                    self.figures[f"{run.probe} {name}"].append(Figure(number, value))


def _at(table: dict[str, array[int]] | dict[Complaint, array[int]], key: object) -> array[int]:
    return table.setdefault(key, array("I"))  # type: ignore[arg-type]


def _name(file: str, report: NodeReport, *, by_file: bool) -> str:
    """The host; a redacted report has a pseudonym, so its file names the node."""
    stem = os.path.splitext(os.path.basename(file).removesuffix(".gz"))[0]
    return stem if by_file or report.redacted or not report.host else report.host


def merge(files: Iterable[str], stack: frozenset[str], *, by_file: bool = False) -> Merged:
    """Read the reports; of two about one node the newer counts. Never raises for a file.

    ``by_file``: nodes have their files' names, from a scheduler. A double node costs a second pass.
    """
    merged = Merged()
    newest: dict[str, tuple[float, str]] = {}
    readable: list[str] = []
    for file in files:
        read = read_report(file)
        if isinstance(read, Unreadable):
            merged.unreadable.append(read)
            continue
        name = _name(file, read, by_file=by_file)
        taken, other = newest.get(name, (0, ""))
        own = (seconds(read.taken_at), file)
        if other:
            merged.duplicates.append(min((taken, other), own)[1])
        newest[name] = max((taken, other), own)
        readable.append(file)
        if not merged.duplicates:
            merged.add(name, file, read, stack)
    if not merged.duplicates:
        return merged
    newest_files = {file for _, file in newest.values()}
    again = Merged(unreadable=merged.unreadable, duplicates=merged.duplicates)
    for file in readable:
        if file in newest_files and isinstance(report := read_report(file), NodeReport):
            again.add(_name(file, report, by_file=by_file), file, report, stack)
    return again


def report_files(paths: Iterable[str]) -> Iterator[str]:
    """The files, and of folders every report below them, in the order of their names."""
    for path in paths:
        if not os.path.isdir(path):
            yield path
            continue
        for folder, names in walk_folders(path):
            for name in names:
                if name.endswith(".json") or (name.startswith(FOLDER) and name.endswith(ENDING)):
                    yield os.path.join(folder, name)


_DECODER = msgspec.json.Decoder(NodeReport)
_HEAD = msgspec.json.Decoder(dict[str, msgspec.Raw])


def read_report(file: str) -> NodeReport | Unreadable:
    try:
        data = read_report_bytes(file, JSON_BYTES)
    except DataError as error:
        return Unreadable(file=file, reason=str(error).removeprefix(f"{file}: "))
    if not data.strip():
        return Unreadable(file=file, reason="empty: the check on this node wrote nothing")
    try:
        report = _DECODER.decode(data)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        return Unreadable(file=file, reason=_why(file, data, error))
    if report.schema > SCHEMA or report.snapshot.schema > FACTS_SCHEMA:
        return Unreadable(file=file, reason="written by a newer ascend-doctor; merge with that one")
    return report


def _why(file: str, data: bytes, error: Exception) -> str:
    try:
        head = _HEAD.decode(data)
    except (msgspec.MsgspecError, RecursionError, ValueError) as broken:
        return f"damaged or cut short ({describe_json(broken, data)})"
    kind = recognise_content(data[:HEAD_BYTES])
    if kind is not None and kind is not REPORT:
        return explain(kind, file)
    if "verdict" not in head or "snapshot" not in head:
        return "no report; `ascend-doctor check --format json` writes one"
    return f"not a report of this schema ({error})"
