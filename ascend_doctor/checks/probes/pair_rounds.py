"""Which node or which link makes a collective fail or slow, by pairs of nodes."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ascend_doctor.checks.probes.run_failures import failures, ran
from ascend_doctor.findings import Finding, Remedy, quantity
from ascend_doctor.judging import Case, Findings, Texts, Unknown, error, note, unknown
from ascend_doctor.probe_records.pairs import NoMeetingRecord, PairRow, PairTable
from ascend_doctor.probe_results import ProbeRun
from ascend_doctor.probing.pair_bisection import Accused, Judged, Kind, Pairs, judge_pairs, matrix

TEXTS = Texts("pair-rounds")

PROBE = "pair-rounds"
_TOLD = 4

_DOES: dict[Kind, str] = {
    "failed": "has no link to the others",
    "wrong": "adds up wrongly with the others",
    "lossy": "loses messages with the others",
    "slow": "is slow with the others",
}
_LINK: dict[Kind, str] = {
    "failed": "do not reach each other",
    "wrong": "add up wrongly with each other",
    "lossy": "lose messages between them",
    "slow": "are slow with each other",
}
_WANTED: dict[Kind, str] = {
    "failed": "a group of both nodes",
    "wrong": "the exact sum",
    "lossy": "nothing sent again while small messages go to and fro",
    "slow": "about {gbps:.3g} GB/s and {us:.0f} us, as is usual among the nodes",
}
_ON_NPU = (
    "for i in $(seq 0 7); do hccn_tool -i $i -link -g; hccn_tool -i $i -net_health -g; done",
    "for i in $(seq 0 7); do hccn_tool -i $i -stat -g; done",
)


@TEXTS.check(PROBE, level=3, probe=PROBE)
def _pair_rounds(case: Case) -> Findings:
    run = ran(case, PROBE)
    table = read_table(run)
    yield from failures(run)
    if table is not None:
        yield from verdicts(table.table, table.names, device=run.device, simulated=run.simulated)


class Recorded(NamedTuple):
    """A table, its nodes' names, and the number of the node that recorded it."""

    table: PairTable
    names: tuple[str, ...]
    node: int


def read_table(run: ProbeRun) -> Recorded | None:
    """The node's table, None if torch failed. Raises Unknown if no nodes met or it did not end."""
    done = next((rank for rank in run.ranks if rank.ok and not rank.skipped), None)
    if done is None:
        stages = [rank.stage for rank in run.ranks if rank.stage not in {"", "import"}]
        errors = [rank.error for rank in run.ranks if rank.error] or ["no end in time"]
        if stages:
            raise Unknown(f"the agent of this node did not end in stage {stages[0]}: {errors[0]}")
        return None
    unmet = done.record(NoMeetingRecord)
    if unmet.untold and not unmet.pairs:
        raise Unknown(f"the nodes did not meet, which is no fault of a node: {unmet.untold}")
    table = done.record(PairTable)
    return Recorded(table, names_of(table), done.rank)


def read_table_or_none(run: ProbeRun) -> Recorded | None:
    """The same, None also if it could not be determined."""
    try:
        return read_table(run)
    except Unknown:
        return None


def names_of(table: PairTable) -> tuple[str, ...]:
    """Hosts by number; the number itself for unknown hosts, and beside repeated ones."""
    times = Counter(table.hosts.values())
    return tuple(
        f"node {number}"
        if not (host := table.hosts.get(number))
        else f"{host} (node {number})"
        if times[host] > 1
        else host
        for number in range(table.count)
    )


def pairs_of(run: ProbeRun) -> Pairs | None:
    recorded = read_table_or_none(run)
    if recorded is None or not recorded.table.pairs:
        return None
    return matrix(recorded.table, recorded.names, device=run.device, simulated=run.simulated)


def verdicts(
    table: PairTable, names: Sequence[str], *, device: str, simulated: bool = False
) -> Findings:
    """Findings about nodes and links; ``names`` are the nodes by number."""
    judged = judge_pairs(table.pairs, device=device, simulated=simulated)
    for accused in judged.accused:
        yield _accusation(accused, judged, table.pairs, names, device)
    yield from _untold(table, judged, names)
    if not judged.accused and not judged.doubts and table.pairs:
        measured = matrix(table, names, device=device, simulated=simulated).pairs
        rates = [pair.gbps for pair in measured if pair.gbps is not None]
        times = [pair.us for pair in measured if pair.us is not None]
        if rates and times:
            where = f"a simulated {device}; these figures say nothing" if simulated else device
            yield note(
                "All pairs of nodes that were measured do well",
                observed=f"{quantity(len(measured), 'pair')} on {where}, {min(rates):.3g} to "
                f"{max(rates):.3g} GB/s, {min(times):.0f} to {max(times):.0f} us",
            )


def _accusation(
    accused: Accused, judged: Judged, rows: Sequence[PairRow], names: Sequence[str], device: str
) -> Finding:
    guilty = tuple(names[node] for node in accused.guilty)
    who = " and ".join(guilty)
    lines = [
        _describe(row, names)
        for row in rows
        if row.pair in accused.pairs and row.outcome != "untold"
    ]
    node = len(guilty) == 1
    return error(
        f"{PROBE}: {who} {(_DOES if node else _LINK)[accused.kind]}",
        observed="\n".join(lines[:_TOLD]),
        required=_WANTED[accused.kind].format(gbps=judged.gbps, us=judged.us),
        because="Its partners do well with other nodes."
        if node
        else "Both do well with other nodes, so it is what lies between them.",
        remedy=_look(device, node=node),
        nodes=guilty,
    )


def _describe(row: PairRow, names: Sequence[str]) -> str:
    return f"{names[row.pair[0]]} with {names[row.pair[1]]}: {_figures(row)}"


def _figures(row: PairRow) -> str:
    if row.outcome == "wrong":
        return f"{row.wrong} elements of the sum are wrong"
    if row.outcome != "ok":
        return row.why
    again = f", {row.retransmitted} of {row.sent} segments sent again" if row.sent else ""
    return (
        f"{row.gbps:.3g} GB/s, {row.us:.0f} us, at worst {row.worst_us / 1000:.0f} ms, "
        f"{row.stalls} of {row.messages} stalled{again}"
    )


def _look(device: str, *, node: bool) -> Remedy:
    what = "the network of that node" if node else "the cables, ports and routes between them"
    if device == "npu":
        return Remedy(summary=f"Look at {what}, on the node itself", commands=_ON_NPU)
    return Remedy(summary=f"Look at {what}: errors, drops and speed of the interface that is used")


def _untold(table: PairTable, judged: Judged, names: Sequence[str]) -> Findings:
    if table.missing:
        who = ", ".join(names[node] for node in table.missing)
        yield unknown(
            f"{PROBE}: {who} did not come to the meeting point",
            because="A node that does not come may be down, busy, or cut off from it; its links "
            "were not tried, and it is not accused.",
            remedy="See what its own report says",
            # Nodes that came alone are unknown, too.
            nodes=tuple(names[node] for node in table.missing) if table.pairs else tuple(names),
        )
    if judged.doubts:
        some = [f"{names[node]} with {names[two]}" for node, two in judged.doubts]
        alone = len(judged.doubts) == len({row.pair for row in table.pairs})
        yield unknown(
            f"{PROBE}: {quantity(len(some), 'pair')} did badly, and whose fault that is cannot be "
            "told",
            observed="\n".join(
                _describe(row, names) for row in table.pairs if row.pair in judged.doubts
            ),
            because="No pair does well, so that there is nobody to compare with."
            if alone
            else "Measurements disagree, or there are too few nodes that do well.",
            remedy="See that GLOO_SOCKET_IFNAME or HCCL_SOCKET_IFNAME names the interface "
            "that all nodes share, and add nodes that are known to do well",
            nodes=_names_of(judged.doubts, names),
        )
    lost = [row for row in table.pairs if row.outcome == "untold"]
    if lost:
        met = _names_of((row.pair for row in table.pairs if row.outcome != "untold"), names)
        yield unknown(
            f"{PROBE}: {quantity(len(lost), 'pair')} could not be measured",
            observed="\n".join(dict.fromkeys(row.why for row in lost[:_TOLD])),
            because="An agent or a rank did not start or ended early, which says nothing about "
            "links.",
            nodes=tuple(
                name for name in _names_of((row.pair for row in lost), names) if name not in met
            ),
        )
    if table.unfinished:
        yield unknown(
            f"{PROBE}: not all rounds were run", observed=table.unfinished, nodes=tuple(names)
        )


def _names_of(pairs: Iterable[tuple[int, int]], names: Sequence[str]) -> tuple[str, ...]:
    return tuple(names[node] for node in sorted({node for pair in pairs for node in pair}))
