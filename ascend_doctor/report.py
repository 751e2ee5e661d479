"""The one result of a run; every format is a rendering of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from ascend_doctor import __version__
from ascend_doctor.exits import EXIT_FINDINGS, EXIT_OK, EXIT_UNKNOWN
from ascend_doctor.facts import Snapshot
from ascend_doctor.findings import Finding, Level, counted
from ascend_doctor.judge import Case, Check, judge
from ascend_doctor.pairs import Pairs

if TYPE_CHECKING:
    from ascend_doctor.acknowledged import Acknowledgement

SCHEMA = 1

LEVELS = (
    "static facts: files, metadata, ELF headers; nothing is imported",
    "imports, each in a child process",
    "one device: memory, copies, matrix products",
    "collectives, groups and a training step under torchrun",
    "bandwidth and soak",
)


class LevelRun(msgspec.Struct, frozen=True, kw_only=True):
    """A level and whether it ran; ``reason`` says why it did not."""

    level: int
    adds: str
    ran: bool = True
    asked: bool = True
    reason: str = ""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of findings by level. ``judged`` of ``checks`` checks had a subject and an answer."""

    worst: Level
    ok: int
    skipped: int
    warning: int
    unknown: int
    error: int
    checks: int
    judged: int
    exit_code: int

    def text(self) -> str:
        """One line for people."""
        parts = [
            counted(self.error, "error"),
            counted(self.warning, "warning"),
            f"{self.unknown} unknown",
            f"{self.ok} ok",
            f"{self.skipped} skipped",
        ]
        return f"{', '.join(parts)}; {self.judged} of {self.checks} checks judged"


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """One machine of a fleet and what its own report, from ``file``, came to."""

    name: str
    file: str
    taken_at: str
    exit_code: int
    worst: Level
    simulated: bool = False


class Differing(msgspec.Struct, frozen=True, kw_only=True):
    """A value of a setting and the machines that have it."""

    value: str
    count: int
    nodes: tuple[str, ...] = ()


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """A setting in which machines differ. ``majority`` is what more than half of them have.

    ``nodes`` of the majority are left out. ``group`` says what it belongs to.
    """

    group: str
    setting: str
    majority: str | None
    values: tuple[Differing, ...]


class Unreadable(msgspec.Struct, frozen=True, kw_only=True):
    """A file that is no report, and why."""

    file: str
    reason: str


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about many machines. ``duplicates`` are files of nodes with a newer one.

    ``pairs`` is what nodes measured with each other.
    """

    nodes: tuple[Node, ...] = ()
    passing: tuple[str, ...] = ()
    failing: tuple[str, ...] = ()
    untold: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()
    duplicates: tuple[str, ...] = ()
    drift: tuple[Drift, ...] = ()
    pairs: Pairs | None = None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one run has to say.

    ``python`` is the examined interpreter; ``snapshot`` the facts that were judged; ``fleet`` is
    what a merged report has instead of them.
    """

    schema: int = SCHEMA
    tool_version: str
    taken_at: str
    host: str
    python: str
    device: str
    simulated: bool
    redacted: bool
    interrupted: bool = False
    levels: tuple[LevelRun, ...]
    verdict: Verdict
    findings: tuple[Finding, ...]
    snapshot: Snapshot
    seconds: float
    fleet: Fleet | None = None

    @property
    def complaints(self) -> list[Finding]:
        """What is not well: errors, then warnings, then what could not be told.

        Checks that could not be judged because one probe stopped theirs are one complaint.
        """
        order = (Level.ERROR, Level.WARNING)
        found = [one for level in order for one in self.findings if one.level is level]
        return [*found, *self._untold()]

    def _untold(self) -> Iterator[Finding]:
        stops = dict.fromkeys(one.not_started for one in self.snapshot.probes if one.not_started)
        stopped: dict[str, list[Finding]] = {reason: [] for reason in stops}
        for one in self.findings:
            if one.level is Level.UNKNOWN:
                reason = next((why for why in stops if one.title.endswith(f": {why}")), "")
                stopped.setdefault(reason or one.title, []).append(one)
        for reason, group in stopped.items():
            if reason in stops and len(group) > 1:
                title = f"{reason}; {len(group)} checks could not be judged"
                checks = ", ".join(one.check for one in group)
                yield Finding(check=checks, level=Level.UNKNOWN, title=title)
            else:
                yield from group


def verdict(
    findings: tuple[Finding, ...], *, fail_on: Level, levels: tuple[LevelRun, ...] = ()
) -> Verdict:
    """Count the findings and choose the exit code.

    1: a finding at or above ``fail_on``; 3: nothing worse than "could not tell", or a level that
    was asked for did not run, or nothing could be judged at all; else 0.
    """
    counts = {level: sum(one.level is level for one in findings) for level in Level}
    worst = max((one.level for one in findings), default=Level.UNKNOWN)
    by_check: dict[str, Level] = {}
    for one in findings:
        by_check[one.check] = max(one.level, by_check.get(one.check, Level.OK))
    judged = sum(level in {Level.OK, Level.WARNING, Level.ERROR} for level in by_check.values())
    not_run = any(one.asked and not one.ran for one in levels)
    if worst >= fail_on:
        code = EXIT_FINDINGS
    elif counts[Level.UNKNOWN] or not_run or not judged:
        code = EXIT_UNKNOWN
    else:
        code = EXIT_OK
    return Verdict(
        worst=worst,
        ok=counts[Level.OK],
        skipped=counts[Level.SKIPPED],
        warning=counts[Level.WARNING],
        unknown=counts[Level.UNKNOWN],
        error=counts[Level.ERROR],
        checks=len(by_check),
        judged=judged,
        exit_code=code,
    )


def assemble(  # noqa: PLR0913 - what a report is made of
    case: Case,
    chosen: Collection[Check],
    *,
    levels: tuple[LevelRun, ...],
    fail_on: Level,
    seconds: float,
    interrupted: bool = False,
    acknowledged: Sequence[Acknowledgement] = (),
) -> Report:
    """Judge the case and put the report together."""
    facts = case.facts
    host = facts.host.name if facts.host else ""
    findings = judge(case, chosen)
    if acknowledged:
        from ascend_doctor.acknowledged import acknowledge  # noqa: PLC0415 - seldom there

        findings = acknowledge(findings, acknowledged, host=host)
    return Report(
        tool_version=__version__,
        taken_at=facts.taken_at,
        host=host,
        python=facts.python.executable if facts.python else "",
        device=case.device,
        simulated=facts.simulated,
        redacted=facts.redacted,
        interrupted=interrupted,
        levels=levels,
        verdict=verdict(findings, fail_on=fail_on, levels=levels),
        findings=findings,
        snapshot=facts,
        seconds=round(seconds, 3),
    )
