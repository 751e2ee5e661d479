"""The pair rounds of many reports as one table, judged once for all nodes."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from ascend_doctor.checks.probes.pair_rounds import (
    PROBE,
    Recorded,
    names_of,
    read_table_or_none,
    verdicts,
)
from ascend_doctor.exits import EXIT_FINDINGS, EXIT_OK, EXIT_UNKNOWN
from ascend_doctor.findings import Finding, Level
from ascend_doctor.probe_records.pairs import PairRow, PairTable
from ascend_doctor.probe_results import ProbeRun
from ascend_doctor.probing.pair_bisection import Pairs, matrix


@dataclass
class PairRun:
    """A probe's run; ``reports``: names by number, ``table``: the one with most hosts."""

    table: PairTable
    device: str
    simulated: bool
    reports: dict[int, str] = field(default_factory=dict)
    rows: dict[tuple[int, tuple[int, int]], PairRow] = field(default_factory=dict)
    unfinished: str = ""

    @property
    def united(self) -> PairTable:
        """The rows of all nodes; of many nodes, most keep only their own."""
        return msgspec.structs.replace(
            self.table,
            unfinished=self.unfinished,
            pairs=tuple(self.rows[row] for row in sorted(self.rows)),
        )

    @property
    def called(self) -> tuple[str, ...]:
        names = names_of(self.table)
        return tuple(self.reports.get(number, name) for number, name in enumerate(names))


class Rounds:
    """The runs of all reports. Nodes are known by number, as reports may be redacted."""

    def __init__(self) -> None:
        self._runs: dict[str, PairRun] = {}

    def add(self, name: str, runs: tuple[ProbeRun, ...]) -> bool:
        """Take the records of the report ``name``; whether there were any."""
        taken = False
        for run in runs:
            if run.probe == PROBE and (recorded := read_table_or_none(run)):
                self._add(name, run, recorded)
                taken = True
        return taken

    def _add(self, name: str, run: ProbeRun, recorded: Recorded) -> None:
        known = self._runs.setdefault(
            recorded.table.run, PairRun(recorded.table, run.device, run.simulated)
        )
        if recorded.table.count != known.table.count:
            return  # it says that it is of this run, and is not
        if len(recorded.table.hosts) > len(known.table.hosts):
            known.table = recorded.table
        known.reports[recorded.node] = name
        known.unfinished = known.unfinished or recorded.table.unfinished
        for row in recorded.table.pairs:
            known.rows.setdefault((row.round, row.pair), row)

    def findings(self) -> Iterator[Finding]:
        for run in self._runs.values():
            for verdict in verdicts(
                run.united, run.called, device=run.device, simulated=run.simulated
            ):
                yield msgspec.structs.replace(verdict, check=PROBE)

    def pairs(self) -> Pairs | None:
        if not self._runs:
            return None
        run = max(self._runs.values(), key=lambda pair_run: len(pair_run.reports))
        return matrix(run.united, run.called, device=run.device, simulated=run.simulated)


def own_exit_code(code: int, findings: tuple[Finding, ...]) -> int:
    """A report's code without pair rounds: a node that saw another fail has not failed itself."""
    levels = {finding.level for finding in findings if finding.check == PROBE}
    if not levels & {Level.ERROR, Level.UNKNOWN}:
        return code
    rest = {finding.level for finding in findings if finding.check != PROBE}
    if Level.ERROR in rest:
        return EXIT_FINDINGS
    return EXIT_UNKNOWN if Level.UNKNOWN in rest else EXIT_OK


def own_worst(findings: tuple[Finding, ...]) -> Level:
    return max((finding.level for finding in findings if finding.check != PROBE), default=Level.OK)
