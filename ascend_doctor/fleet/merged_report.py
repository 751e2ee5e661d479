"""One verdict about many machines: whose findings, who is missing, who differs, who is slow."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from ascend_doctor import __version__
from ascend_doctor.comparison.comparable import ABSENT, ComparedSetting
from ascend_doctor.exits import EXIT_FINDINGS, EXIT_OK
from ascend_doctor.facts import Snapshot
from ascend_doctor.findings import Finding, Level, Remedy, quantity
from ascend_doctor.fleet.compared_findings import (
    differences,
    fewer_npus,
    shared_addresses,
    slow_nodes,
    some,
)
from ascend_doctor.fleet.hostlist import compress
from ascend_doctor.fleet.merge import Merged
from ascend_doctor.judging.subjects import merge_subjects
from ascend_doctor.report import Differing, Drift, Fleet, Node, Report, verdict


def judge(
    merged: Merged,
    *,
    expected: Sequence[str] | None,
    fail_on: Level,
    seconds: float,
    reasons: Mapping[str, str] = MappingProxyType({}),
) -> Report:
    """``expected``: nodes that had to report, None if unknown; ``reasons``: why some are silent."""
    names = [node.name for node in merged.nodes]
    missing = _missing(expected, names)
    drift = tuple(_drifts(merged))
    rounds = tuple(merged.rounds.findings())
    findings = (
        *_silent(missing, reasons),
        *_about_files(merged),
        *fewer_npus(drift),
        *differences(drift),
        *shared_addresses(merged),
        *rounds,
        *_complaints(merged),
        *slow_nodes(merged),
    )
    accused = {name for finding in findings if finding.level >= fail_on for name in finding.nodes}
    doubtful = {
        name for finding in rounds if finding.level is Level.UNKNOWN for name in finding.nodes
    }
    ends = _ends(merged, accused, doubtful)
    findings = (*findings, *_summary(len(ends.passing), ends.untold))
    return Report(
        tool_version=__version__,
        taken_at=max((node.taken_at for node in merged.nodes), default=""),
        host=quantity(len(names), "node"),
        python="",
        device="fleet",
        simulated=any(node.simulated for node in merged.nodes),
        redacted=merged.redacted > 0,
        levels=(),
        verdict=verdict(findings, fail_on=fail_on),
        findings=findings,
        snapshot=Snapshot(redacted=True),  # names stay as the reports have them
        seconds=round(seconds, 3),
        fleet=Fleet(
            nodes=tuple(_nodes(merged, rounds)),
            passing=ends.passing,
            failing=ends.failing,
            untold=ends.untold,
            missing=missing,
            unreadable=tuple(merged.unreadable),
            duplicates=tuple(merged.duplicates),
            drift=drift,
            pairs=merged.rounds.pairs(),
        ),
        subjects=tuple(merge_subjects(merged.subjects)),
    )


class _Ends(NamedTuple):
    passing: tuple[str, ...]
    failing: tuple[str, ...]
    untold: tuple[str, ...]


def _ends(merged: Merged, accused: Collection[str], doubtful: Collection[str]) -> _Ends:
    """``accused`` and ``doubtful`` are so by comparison, whatever their own reports say."""
    passing, failing, untold = [], [], []
    for number, node in enumerate(merged.nodes):
        code = merged.own_codes.get(number, node.exit_code)
        if node.name in accused or code == EXIT_FINDINGS:
            failing.append(node.name)
        elif code == EXIT_OK and node.name not in doubtful:
            passing.append(node.name)
        else:
            untold.append(node.name)
    return _Ends(tuple(passing), tuple(failing), tuple(untold))


def _nodes(merged: Merged, rounds: Sequence[Finding]) -> Iterator[Node]:
    levels: dict[str, Level] = defaultdict(lambda: Level.OK)
    for finding in rounds:
        for name in finding.nodes:
            levels[name] = max(levels[name], finding.level)
    for node in merged.nodes:
        yield msgspec.structs.replace(node, worst=max(node.worst, levels[node.name]))


def _summary(passing: int, untold: tuple[str, ...]) -> Iterator[Finding]:
    if untold:
        yield Finding(
            check="fleet-nodes",
            level=Level.UNKNOWN,
            title=f"{quantity(len(untold), 'node')} came to no verdict",
            because="A check that could not tell has not passed.",
            nodes=untold,
        )
    elif passing:
        yield Finding(check="fleet-nodes", level=Level.OK, title=f"Nodes that passed: {passing}")


def _missing(expected: Sequence[str] | None, names: Collection[str]) -> tuple[str, ...]:
    """Expected nodes without a report; a short name matches the only full one it begins."""
    known = set(names)
    short = Counter(name.partition(".")[0] for name in names)
    return tuple(
        name
        for name in expected or ()
        if name not in known and short.get(name.partition(".")[0], 0) != 1
    )


def _silent(missing: tuple[str, ...], reasons: Mapping[str, str]) -> Iterator[Finding]:
    if not missing:
        return
    by_reason: dict[str, list[str]] = defaultdict(list)
    for name in missing:
        if name in reasons:
            by_reason[reasons[name]].append(name)
    lines = [f"{compress(names)}: {reason}" for reason, names in by_reason.items()]
    yield Finding(
        check="fleet-missing",
        level=Level.UNKNOWN,
        title=f"{quantity(len(missing), 'node')} did not report",
        observed=some(lines),
        because="Nothing is known about a node that is silent.",
        remedy=Remedy(summary="Run the check there, and look why it wrote nothing"),
        nodes=missing,
    )


def _about_files(merged: Merged) -> Iterator[Finding]:
    if merged.unreadable:
        files = [f"{unreadable.file}: {unreadable.reason}" for unreadable in merged.unreadable]
        yield Finding(
            check="fleet-unreadable",
            level=Level.UNKNOWN,
            title="1 file is not a report"
            if len(files) == 1
            else f"{len(files)} files are not reports",
            observed=some(files),
            remedy=Remedy(summary="Write them anew; an interrupted copy is the usual reason"),
        )
    if merged.duplicates:
        yield Finding(
            check="fleet-duplicate-node",
            level=Level.WARNING,
            title=f"{len(merged.duplicates)} older reports of nodes that have a newer one",
            observed=some(merged.duplicates),
            because="Two nodes with one name look the same; only the newer report counts.",
        )
    simulated = tuple(node.name for node in merged.nodes if node.simulated)
    if simulated and len(simulated) < len(merged.nodes):
        yield Finding(
            check="fleet-nodes",
            level=Level.ERROR,
            title="Simulated nodes stand among real ones",
            because="A simulated result says nothing about hardware.",
            nodes=simulated,
        )


def _complaints(merged: Merged) -> Iterator[Finding]:
    rows = sorted(
        merged.complaints.items(), key=lambda row: (-row[0].level.rank, -len(row[1]), row[0].check)
    )
    for key, numbers in rows:
        yield msgspec.structs.replace(merged.examples[key], nodes=merged.names(numbers))


def _drifts(merged: Merged) -> Iterator[Drift]:
    rows = sorted(merged.settings.items(), key=lambda row: (row[0].group.rank, row[0].name))
    for setting, values in rows:
        spread = _spread(merged, setting, values)
        if len(spread) > 1:
            yield _drift(merged, setting, spread)


def _spread(
    merged: Merged, setting: ComparedSetting, values: dict[str, array[int]]
) -> dict[str, Sequence[int]]:
    spread: dict[str, Sequence[int]] = dict(values)
    if setting.listed:
        having = {number for numbers in values.values() for number in numbers}
        lacking = [section for section in merged.sections[setting.section] if section not in having]
        if lacking:
            spread[ABSENT] = lacking
    return spread


def _drift(merged: Merged, setting: ComparedSetting, spread: dict[str, Sequence[int]]) -> Drift:
    ordered = sorted(spread.items(), key=lambda row: (-len(row[1]), row[0]))
    value, numbers = ordered[0]
    most = value if 2 * len(numbers) > sum(len(nodes) for nodes in spread.values()) else None
    return Drift(
        group=setting.group.value,
        setting=setting.name,
        majority=most,
        values=tuple(
            Differing(
                value=value,
                count=len(numbers),
                nodes=() if value == most else merged.names(numbers),
            )
            for value, numbers in ordered
        ),
    )
