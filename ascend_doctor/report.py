"""The one result of a run; every format is a rendering of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from ascend_doctor import __version__
from ascend_doctor.exits import EXIT_FINDINGS, EXIT_INTERRUPTED, EXIT_OK, EXIT_UNKNOWN
from ascend_doctor.facts import Snapshot
from ascend_doctor.findings import Finding, Level, Remedy, first_of, quantity, root_causes
from ascend_doctor.judging.judge import Case, Check, judge
from ascend_doctor.judging.subjects import Subject, subjects
from ascend_doctor.machine.patience import patience
from ascend_doctor.probing.pair_bisection import Pairs

if TYPE_CHECKING:
    from ascend_doctor.judging.acknowledged import Acknowledgement

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
    """Counts of findings by level. ``judged`` of ``checks`` checks had a subject and an answer.

    ``consequences`` follow from an error.
    """

    worst: Level
    ok: int
    skipped: int
    warning: int
    unknown: int
    error: int
    checks: int
    judged: int
    exit_code: int
    consequences: int = 0

    def text(self) -> str:
        errors, warnings = quantity(self.error, "error"), quantity(self.warning, "warning")
        if self.unknown:
            return f"{errors}, {warnings}; {self.ok} passed, {self.unknown} could not run"
        return f"{errors}, {warnings}; {self.ok} passed"


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """One machine of a fleet and the result of its report, from ``file``."""

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

    ``nodes`` of the majority are left out.
    """

    group: str
    setting: str
    majority: str | None
    values: tuple[Differing, ...]


class Unreadable(msgspec.Struct, frozen=True, kw_only=True):
    file: str
    reason: str


class EarlierMerge(msgspec.Struct, frozen=True):
    """How many nodes ended how in a merge before."""

    merged_at: str
    passed: int
    failed: int
    untold: int
    missing: int

    def text(self) -> str:
        return (
            f"{self.passed} passed, {self.failed} failed, "
            f"{self.untold} without a verdict, {self.missing} missing"
        )


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about many machines. ``duplicates`` are files of nodes with a newer one.

    ``pairs`` is what nodes measured with each other, ``earlier`` begins with the latest merge.
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
    earlier: tuple[EarlierMerge, ...] = ()

    def ends(self, merged_at: str) -> EarlierMerge:
        counts = map(len, (self.passing, self.failing, self.untold, self.missing))
        return EarlierMerge(merged_at, *counts)

    def text(self) -> str:
        return self.ends("").text()


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one run has to say.

    ``python`` is the examined interpreter; ``snapshot`` the judged facts; ``fleet`` replaces
    them in a merged report. Every deadline was ``patience`` times its own. ``notices`` come
    before all else, ``subjects`` are what was examined.
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
    patience: float = 1.0
    patience_because: str = ""
    notices: tuple[str, ...] = ()
    subjects: tuple[Subject, ...] = ()

    @property
    def exit_code(self) -> int:
        return EXIT_INTERRUPTED if self.interrupted else self.verdict.exit_code

    @property
    def outcome(self) -> str:
        """The verdict on one line; of a fleet, whose checks nobody counts, what is wrong."""
        counts = self.verdict
        if self.fleet is None:
            roots = Counter(finding.level for finding in root_causes(self.findings))
            shown = {"error": roots[Level.ERROR], "warning": roots[Level.WARNING]}
            return msgspec.structs.replace(counts, **shown).text()
        parts = [quantity(counts.error, "error"), quantity(counts.warning, "warning")]
        return ", ".join((*parts, f"{counts.unknown} unknown"))

    @property
    def headline(self) -> str:
        return f"{self.fleet.text()}; {self.outcome}" if self.fleet else self.outcome

    @property
    def bare(self) -> bool:
        """Whether nothing here trains, which makes good results no success."""
        first = self.notices[0] if self.notices else ""
        return self.device == "npu" and first in {_BARE, _WITHOUT_NPU}

    @property
    def complaints(self) -> list[Finding]:
        """Errors, then warnings, then what could not be determined.

        Unknown results with one reason are one complaint; consequences of an error are none
        (``consequences`` has them).
        """
        roots = root_causes(self.findings)
        return [*_worse(roots), *_fold(_untold(roots))]

    def consequences(self, cause: Finding) -> list[Finding]:
        """What follows from an error; of several by one check the first has it all."""
        errors = (error for error in self.findings if error.level is Level.ERROR)
        if next((error for error in errors if error.check == cause.check), None) != cause:
            return []
        return [finding for finding in self.findings if finding.because_of == cause.check]

    @property
    def unfolded(self) -> list[Finding]:
        return [*_worse(self.findings), *_untold(self.findings)]


def _worse(findings: Iterable[Finding]) -> Iterator[Finding]:
    ordered = sorted(findings, key=lambda finding: -finding.level.rank)
    return (finding for finding in ordered if finding.level in {Level.ERROR, Level.WARNING})


def _untold(findings: Iterable[Finding]) -> Iterator[Finding]:
    return (finding for finding in findings if finding.level is Level.UNKNOWN)


_BARE = "No NPU, no driver and no CANN here"
_WITHOUT_NPU = "No NPU and no driver here"
_NAMED = 4
_ROW = '- {id: "*", unknown: needs-root, reason: nobody runs it as root}'
_WRITE_ROW = f"printf '%s\\n' 'acknowledged:' '{_ROW}' > ascend-doctor.yaml"


def _fold(untold: Iterable[Finding]) -> Iterator[Finding]:
    groups: dict[str, list[Finding]] = {}
    for number, finding in enumerate(untold):
        why = "Not checked, needs root" if finding.needs == "root" else finding.reason
        groups.setdefault(why or str(number), []).append(finding)
    for why, group in groups.items():
        if len(group) == 1:
            yield group[0]
            continue
        names = list(dict.fromkeys(finding.check for finding in group))
        by_root = group[0].needs == "root"
        yield Finding(
            check=first_of(names, _NAMED),
            level=Level.UNKNOWN,
            title=why if by_root else f"{why}; {len(group)} checks could not be judged",
            observed="; ".join(finding.title for finding in group) if by_root else "",
            remedy=_need_root(group) if by_root else None,
            nodes=tuple(dict.fromkeys(name for finding in group for name in finding.nodes)),
        )


def _need_root(group: Iterable[Finding]) -> Remedy:
    commands = dict.fromkeys(
        command
        for finding in group
        for command in (finding.remedy.commands if finding.remedy else ())
    )
    return Remedy(
        summary="Let root look; or, where nobody will, acknowledge it in ascend-doctor.yaml",
        commands=(*commands, f"[ -e ascend-doctor.yaml ] || {_WRITE_ROW}"),
    )


def verdict(
    findings: tuple[Finding, ...], *, fail_on: Level, levels: tuple[LevelRun, ...] = ()
) -> Verdict:
    """Count the findings and choose the exit code.

    1: a finding at or above ``fail_on``. 3: nothing worse than "could not tell", or a requested
    level did not run, or nothing could be judged at all. Else 0.
    """
    counts = {level: sum(finding.level is level for finding in findings) for level in Level}
    worst = max((finding.level for finding in findings), default=Level.UNKNOWN)
    by_check: dict[str, Level] = {}
    for finding in findings:
        by_check[finding.check] = max(finding.level, by_check.get(finding.check, Level.OK))
    judged = sum(level in {Level.OK, Level.WARNING, Level.ERROR} for level in by_check.values())
    not_run = any(run.asked and not run.ran for run in levels)
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
        consequences=len(findings) - len(root_causes(findings)),
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
    facts = case.facts
    host = facts.host.name if facts.host else ""
    factor, because = patience()
    findings = judge(case, chosen)
    if acknowledged:
        from ascend_doctor.judging.acknowledged import acknowledge

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
        patience=factor,
        patience_because=because,
        notices=tuple(_notices(facts)),
        subjects=tuple(subjects(findings, chosen, facts)),
    )


def _notices(facts: Snapshot) -> Iterator[str]:
    driver, npus, cann = facts.driver, facts.npus, facts.cann
    # What was not examined is not absent.
    seen = driver is None or driver.present or npus is None or npus.tool or npus.devices
    if not seen and cann is not None:
        yield _WITHOUT_NPU if cann.installs else _BARE
    python = facts.python
    if python is not None and python.by == "PATH" and not python.own:
        yield f"No environment is active, so {python.source or python.executable} was examined"
