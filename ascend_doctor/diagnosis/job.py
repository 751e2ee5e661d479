"""The diagnosis of a job's logs: of its last attempt, with the attempts before it."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from ascend_doctor.diagnosis.attempts import read_history, remember, split_attempts, weigh
from ascend_doctor.diagnosis.conclude import conclude
from ascend_doctor.diagnosis.exception_rules import Describer
from ascend_doctor.diagnosis.ledger import Ledger
from ascend_doctor.diagnosis.links import Links
from ascend_doctor.diagnosis.logs import Log, Skipped
from ascend_doctor.diagnosis.patterns import Patterns
from ascend_doctor.diagnosis.places import Places
from ascend_doctor.diagnosis.plog_runs import split_runs
from ascend_doctor.diagnosis.result import Attempt, Diagnosis, NotRead
from ascend_doctor.diagnosis.scan import read
from ascend_doctor.diagnosis.stall_result import Stall
from ascend_doctor.findings import Level
from ascend_doctor.machine.live import Machine
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.schema import ErrorCodes, KnownFailure


@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """``nodes``: names of the job's nodes by rank; ``node_rank``: that of the logs' one node.

    ``history``: earlier diagnoses, oldest first; ``stall``, ``exit_status``: of the last attempt.
    ``machine``: the job's, ``interpreter``: its Python unless a log names another.
    """

    fail_on: Level = Level.ERROR
    node_rank: int | None = None
    nodes: tuple[str, ...] = ()
    history: tuple[str, ...] = ()
    stall: Stall | None = None
    exit_status: int | None = None
    machine: Machine | None = None
    interpreter: str = ""


def read_job(matrix: Catalog, options: JobOptions) -> "JobReader":
    """A reader of logs that knows the failures of a catalogue."""
    known = matrix.recognized_failures
    patterns = Patterns(known.values())
    return JobReader(
        failures=known, codes=matrix.error_codes, patterns=patterns, matrix=matrix, options=options
    )


@dataclass
class JobReader:
    """``interrupted`` is True once the user stopped it."""

    failures: dict[str, KnownFailure]
    codes: ErrorCodes
    patterns: Patterns
    options: JobOptions = field(default_factory=JobOptions)
    matrix: Catalog = field(default_factory=Catalog)
    interrupted: bool = field(default=False, init=False)

    def diagnose(
        self,
        logs: Sequence[Log],
        skipped: Sequence[Skipped] = (),
        *,
        conceal: Callable[[str], str] = str,
    ) -> Diagnosis:
        """Diagnose the last attempt; ``conceal`` gives nodes' pseudonyms. Raises DataError."""
        attempts = split_attempts(logs)
        of_plogs = len(attempts) == 1
        if of_plogs:
            attempts = split_runs(logs)
        runs = [
            (
                name,
                self._diagnose_attempt(
                    _name_nodes(attempt, self.options.nodes), last=number == len(attempts)
                ),
            )
            for number, (name, attempt) in enumerate(attempts, start=1)
        ]
        # One that has only begun says nothing yet.
        runs = [run for run in runs if run[1].bytes or run[1].stall] or runs[-1:]
        # Plogs of a run in which nothing failed say that it failed in no way: a test, a query.
        failed = [
            number
            for number, (_, each, *_) in enumerate(runs)
            if of_plogs and not runs[-1][1].work and (each.causes or each.unexplained or each.stall)
        ]
        newest = failed[-1] + 1 if failed else len(runs)
        later = [remember(diagnosis, attempt) for attempt, diagnosis in runs[newest:]]
        *earlier, (name, last) = runs[:newest]
        remembered = [
            _reveal(attempt, last, conceal)
            for path in self.options.history
            for attempt in read_history(path, last)
        ]
        remembered += [remember(diagnosis, attempt) for attempt, diagnosis in earlier]
        unread = tuple(NotRead(name=log.name, reason=log.reason) for log in skipped)
        verdict = last.verdict and weigh(last.verdict, remember(last, name), remembered)
        if verdict and later:
            attempts_named = (*verdict.attempts, *later)
            verdict = msgspec.structs.replace(verdict, attempts=attempts_named)
        return msgspec.structs.replace(
            last, attempt=name, verdict=verdict, not_read=(*unread, *last.not_read)
        )

    def _diagnose_attempt(self, logs: Sequence[Log], *, last: bool) -> Diagnosis:
        reads = next((known.reads for known in self.failures.values() if known.reads), {})
        ledger = Ledger(places=Places(node_rank=self.options.node_rank), links=Links(reads))
        unread: list[Skipped] = []
        try:
            for log in () if self.interrupted else logs:
                unread += read(log, self.patterns, self.failures, ledger)
        except KeyboardInterrupt:
            self.interrupted = True
        if self.interrupted:
            left = logs[max(ledger.files - 1, 0) :]
            unread += [Skipped(name=log.name, reason="interrupted") for log in left]
        binary = ledger.binary or self.options.interpreter
        return conclude(
            ledger,
            self.failures,
            self.codes,
            skipped=unread,
            stall=self.options.stall if last else None,
            exit_status=self.options.exit_status if last else None,
            fail_on=self.options.fail_on,
            nodes=self.options.nodes,
            describer=Describer(self.matrix, binary, ledger.launcher, self.options.machine),
        )


def _name_nodes(logs: Sequence[Log], nodes: Sequence[str]) -> list[Log]:
    return [
        replace(log, origin=replace(log.origin, node=node))
        if not log.origin.node and (node := _node_of(log.name, nodes))
        else log
        for log in logs
    ]


def _node_of(path: str, nodes: Sequence[str]) -> str:
    *folders, file = path.split("/")
    parts = {*folders, file, file.partition(".")[0], os.path.splitext(file)[0]}
    return next((node for node in nodes if node in parts), "")


def _reveal(attempt: Attempt, now: Diagnosis, conceal: Callable[[str], str]) -> Attempt:
    verdict = now.verdict
    names = {*now.nodes, *(verdict.suspects + verdict.nodes if verdict else ())}
    known = {conceal(name): name for name in names}
    nodes = tuple(known.get(node, node) for node in attempt.nodes)
    return msgspec.structs.replace(attempt, nodes=nodes)
