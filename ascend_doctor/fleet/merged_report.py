"""One verdict about many machines: whose findings, who is missing, who differs, who is slow."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from ascend_doctor import __version__
from ascend_doctor.comparison.comparable import ABSENT, DEVICE_FILES, ComparedSetting, Group
from ascend_doctor.exits import EXIT_FINDINGS, EXIT_OK
from ascend_doctor.facts import Snapshot
from ascend_doctor.findings import Finding, Level, Remedy, quantity
from ascend_doctor.fleet.hostlist import compress
from ascend_doctor.fleet.merge import Merged
from ascend_doctor.fleet.outliers import more_is_worse, outliers
from ascend_doctor.report import Differing, Drift, Fleet, Node, Report, verdict

_NAMED = 8


def judge(
    merged: Merged,
    *,
    expected: Sequence[str] | None,
    fail_on: Level,
    seconds: float,
    reasons: Mapping[str, str] = MappingProxyType({}),
) -> Report:
    """The merged report. ``expected`` are the nodes that had to report, None where nobody said.

    ``reasons`` say of nodes why they are silent, where what started the check knows it.
    """
    names = [node.name for node in merged.nodes]
    missing = _missing(expected, names)
    drift = tuple(_drifts(merged))
    rounds = tuple(merged.rounds.findings())
    findings = (
        *_silent(missing, reasons),
        *_about_files(merged),
        *_fewer(drift),
        *(_drift_finding(row) for row in drift),
        *_addresses(merged),
        *rounds,
        *_complaints(merged),
        *_outliers(merged),
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
    )


class _Ends(NamedTuple):
    """Names of nodes by what their checks came to."""

    passing: tuple[str, ...]
    failing: tuple[str, ...]
    untold: tuple[str, ...]


def _ends(merged: Merged, accused: Collection[str], doubtful: Collection[str]) -> _Ends:
    """``accused`` and ``doubtful`` are so by what was compared, whatever their own reports say."""
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
    """Every node with its worst level; of its pair rounds only what is about itself counts."""
    levels: dict[str, Level] = defaultdict(lambda: Level.OK)
    for finding in rounds:
        for name in finding.nodes:
            levels[name] = max(levels[name], finding.level)
    for number, node in enumerate(merged.nodes):
        own = merged.own_worst.get(number, node.worst)
        yield msgspec.structs.replace(node, worst=max(own, levels[node.name]))


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
        yield Finding(
            check="fleet-nodes", level=Level.OK, title=f"{quantity(passing, 'node')} passed"
        )


def _missing(expected: Sequence[str] | None, names: Collection[str]) -> tuple[str, ...]:
    """Expected nodes without a report; a short name stands for the only full one it begins."""
    known = set(names)
    short = Counter(name.partition(".")[0] for name in names)
    return tuple(
        name
        for name in expected or ()
        if name not in known and short.get(name.partition(".")[0], 0) != 1
    )


def _silent(missing: tuple[str, ...], reasons: Mapping[str, str]) -> Iterator[Finding]:
    """Nodes with one reason stand together."""
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
        observed="; ".join(lines[:_NAMED]) + _more(len(lines)),
        because="Nothing is known about a node that is silent.",
        remedy=Remedy(summary="Run the check there, and look why it wrote nothing"),
        nodes=missing,
    )


def _about_files(merged: Merged) -> Iterator[Finding]:
    if merged.unreadable:
        first = "; ".join(
            f"{unreadable.file}: {unreadable.reason}" for unreadable in merged.unreadable[:_NAMED]
        )
        yield Finding(
            check="fleet-unreadable",
            level=Level.UNKNOWN,
            title=_not_reports(len(merged.unreadable)),
            observed=first + _more(len(merged.unreadable)),
            remedy=Remedy(summary="Write them anew; an interrupted copy is the usual reason"),
        )
    if merged.duplicates:
        yield Finding(
            check="fleet-duplicate-node",
            level=Level.WARNING,
            title=f"{len(merged.duplicates)} older reports of nodes that have a newer one",
            observed=", ".join(merged.duplicates[:_NAMED]) + _more(len(merged.duplicates)),
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


def _not_reports(count: int) -> str:
    return "1 file is not a report" if count == 1 else f"{count} files are not reports"


def _more(number: int) -> str:
    return f" and {number - _NAMED} more" if number > _NAMED else ""


def _complaints(merged: Merged) -> Iterator[Finding]:
    rows = sorted(
        merged.complaints.items(), key=lambda row: (-row[0].level.rank, -len(row[1]), row[0].check)
    )
    for key, numbers in rows:
        yield msgspec.structs.replace(merged.examples[key], nodes=_names(merged, numbers))


def _names(merged: Merged, numbers: Iterable[int]) -> tuple[str, ...]:
    return tuple(merged.nodes[number].name for number in numbers)


def _drifts(merged: Merged) -> Iterator[Drift]:
    rows = sorted(merged.settings.items(), key=lambda row: (row[0].group.rank, row[0].name))
    for setting, values in rows:
        spread = _spread(merged, setting, values)
        if len(spread) > 1:
            yield _drift(merged, setting, spread)


def _spread(
    merged: Merged, setting: ComparedSetting, values: dict[str, array[int]]
) -> dict[str, Sequence[int]]:
    """Machines by value; one whose list has no such entry has the value "absent"."""
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
                nodes=() if value == most else _names(merged, numbers),
            )
            for value, numbers in ordered
        ),
    )


def _fewer(drifts: Iterable[Drift]) -> Iterator[Finding]:
    """Nodes that have fewer NPUs than most: a rank of the job has none there."""
    for drift in drifts:
        if drift.setting != DEVICE_FILES or drift.majority is None:
            continue
        few = [value for value in drift.values if int(value.value) < int(drift.majority)]
        if few:
            yield Finding(
                check="fleet-npus",
                level=Level.ERROR,
                title="Nodes have fewer NPUs than most",
                observed="; ".join(
                    f"{differing.value} on {quantity(differing.count, 'node')}"
                    for differing in few[:_NAMED]
                )
                + _more(len(few)),
                required=f"{quantity(int(drift.majority), 'NPU')}, as on most nodes",
                because="A card that the driver lost leaves a rank of the job without a device.",
                remedy=Remedy(
                    summary="See which cards are gone; merge nodes of another kind apart",
                    commands=("npu-smi info -l", "lspci -d 19e5: | grep -i accelerators"),
                ),
                nodes=tuple(name for differing in few for name in differing.nodes),
            )


def _drift_finding(drift: Drift) -> Finding:
    values = "; ".join(
        f"{value.value} on {quantity(value.count, 'node')}" for value in drift.values[:_NAMED]
    )
    stack = drift.group == Group.STACK.value
    few = tuple(
        name for value in drift.values if value.value != drift.majority for name in value.nodes
    )
    return Finding(
        check="fleet-drift",
        level=Level.ERROR if stack else Level.WARNING,
        title=f"Nodes differ in {drift.setting}",
        observed=values + _more(len(drift.values)),
        required=f"{drift.majority} as on most nodes"
        if drift.majority is not None
        else "one value",
        because="All ranks of a job run the same program only if their stacks are the same."
        if stack
        else "A difference between nodes is where a failure on some of them begins.",
        nodes=few if drift.majority is not None else (),
    )


def _addresses(merged: Merged) -> Iterator[Finding]:
    for address, owners in sorted(merged.addresses.items()):
        if len(owners) > 1:
            yield Finding(
                check="fleet-duplicate-address",
                level=Level.ERROR,
                title=f"{len(owners)} NPUs have the address {address}",
                observed=", ".join(
                    f"{what} of {merged.nodes[number].name}" for number, what in owners
                ),
                because="Packets reach one of them; the others time out.",
                remedy=Remedy(
                    summary="Give each NPU an address of its own; `hccn_tool -i N -ip -g` shows it"
                ),
                nodes=_names(merged, dict.fromkeys(number for number, _ in owners)),
            )


def _outliers(merged: Merged) -> Iterator[Finding]:
    for name, measured in sorted(merged.figures.items()):
        by_node: dict[int, list[float]] = defaultdict(list)
        worse_above = bool(more_is_worse(name))
        for figure in measured:
            by_node[figure.node].append(figure.value)
        worst = max if worse_above else min
        numbers = list(by_node)
        values = [worst(by_node[number]) for number in numbers]
        for far in outliers(values, worse_above=worse_above):
            node = merged.nodes[numbers[far.position]].name
            yield Finding(
                check="fleet-outlier",
                level=Level.WARNING,
                title=f"{node} stands out in {name}",
                observed=f"{far.value:g}",
                required=f"about {far.median:g}, the median of {quantity(len(values), 'node')}",
                because="The slowest rank sets the pace of every step.",
                nodes=(node,),
            )
