"""What a scheduler should do about one run: start it again, leave out a node, or stop."""

import re
import signal
from collections.abc import Iterable, Sequence

import msgspec

from ascend_doctor.diagnosis.ledger import Ended, Ledger, Occurrences, Sighting, earliest
from ascend_doctor.diagnosis.places import ITSELF
from ascend_doctor.diagnosis.result import Action, Fault, Guilt, JobVerdict
from ascend_doctor.diagnosis.stall_result import Stall
from ascend_doctor.matrix.schema import KnownFailure
from ascend_doctor.patterns import compile_beside

_CRASHES = frozenset(
    {signal.SIGSEGV, signal.SIGABRT, signal.SIGILL, signal.SIGBUS, signal.SIGFPE, signal.SIGSYS}
)
# Sent from outside the job: by a scheduler, a person, a closed terminal.
_SENT = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2})
_IS = compile_beside(__file__)
# Ends of a link set-up that may not come again; that of one card excludes, others stop.
_PASSING_ENDS = frozenset(
    {"missing", "not-created", "late", "ended", "not-listening", "host-port", "host-route", "route"}
)
_SHORT = 120
NO_FAILURE = "the logs show no failure"


def judge_run(
    ledger: Ledger,
    root: KnownFailure | None,
    guilty: Guilt | None,
    waits: Occurrences,
    *,
    nodes: Sequence[str] = (),
    stall: Stall | None = None,
) -> JobVerdict:
    """The verdict on a run by itself, from its settled ledger.

    ``root`` is its root cause, ``waits`` are victims' lines, ``nodes`` the user's names by rank.
    ``stall`` counts if the logs decide nothing, or only say that the run was ended.
    """
    verdict = _judge(ledger, root, guilty, waits, nodes)
    if stall is not None and (
        (stall.absent and verdict.action == "unknown")
        or (verdict.action != "unknown" and is_of_hang(ledger, root, waits))
    ):
        verdict = _by_stall(stall)
    elif stall is not None and verdict.reason == NO_FAILURE:
        verdict = msgspec.structs.replace(verdict, reason="no rank is named for the hang")
    suspects = nodes_of_guilty(ledger, guilty, nodes)
    if verdict.fault != "communication" or len(suspects) >= len(set(ledger.nodes) | set(nodes)):
        return verdict
    return msgspec.structs.replace(verdict, suspects=suspects)


def _judge(
    ledger: Ledger,
    root: KnownFailure | None,
    guilty: Guilt | None,
    waits: Occurrences,
    nodes: Sequence[str],
) -> JobVerdict:
    if root is not None and guilty and guilty.end and guilty.end not in _PASSING_ENDS:
        action: Action = "exclude" if guilty.end == "card" else "stop"
        return _by_cause(ledger, msgspec.structs.replace(root, verdict=action), guilty, nodes)
    if root is not None and not (root.victim or root.secondary):
        return _by_cause(ledger, root, guilty, nodes)
    by_error = _by_error(ledger, waits)
    if by_error:
        return by_error
    by_cause = _by_cause(ledger, root, guilty, nodes) if root else None
    if root is not None and root.verdict and by_cause:
        return by_cause
    by_end = _by_signal(_own_ends(ledger, waits), _SENT, "restart", "was ended from outside")
    return by_end or by_cause or _by_death(ledger) or _say_unknown(ledger)


def is_of_hang(ledger: Ledger, root: KnownFailure | None, waits: Occurrences) -> bool:
    """Whether a run only hung: it was ended, or ranks waited too long."""
    if root is not None and not (root.victim or root.secondary):
        return False
    if _by_signal(_own_ends(ledger, waits), _CRASHES, "stop", "crashed"):
        return False
    raised = _by_exception(ledger, waits)
    return raised is None or raised.action == "restart"


def _by_stall(stall: Stall) -> JobVerdict:
    """Another order of collectives is code; an absent rank may come the next time."""
    ranks = ", ".join(str(rank.rank) for rank in stall.absent)
    if not ranks:
        reason = f"it hung and was ended, which may not happen again: {stall.undecided}"
        return JobVerdict(action="restart", fault="communication", reason=reason)
    if any(rank.kind == "other call" for rank in stall.absent):
        reason = f"rank {ranks} calls another collective than those that wait for it"
        return JobVerdict(action="stop", fault="software", reason=reason)
    reason = f"rank {ranks} did not come where others wait, which may not happen again"
    return JobVerdict(action="restart", fault="communication", reason=reason)


def _say_unknown(ledger: Ledger) -> JobVerdict:
    known = "nothing known explains the errors in the logs"
    reason = known if ledger.shows_failure else NO_FAILURE
    return JobVerdict(action="unknown", reason=reason)


_REASONS = {
    "restart": "nothing in the job itself has to change",
    "wait": "a wait for other ranks, which may not happen again",
    "stop": "it fails again unless code, data or configuration change",
    "unknown": "the card, its driver, or the code may be at fault",
}


def _by_cause(
    ledger: Ledger, root: KnownFailure, guilty: Guilt | None, nodes: Sequence[str]
) -> JobVerdict:
    action = _action_of(root)
    if action == "exclude":
        return _exclude(ledger, root, guilty, nodes)
    fault: Fault = "software" if action == "stop" else "unknown"
    if action == "restart":
        fault = "communication" if root.victim else "scheduler"
    reason = _REASONS["wait" if root.victim and action == "restart" else action]
    if root.secondary and action == "unknown":
        return JobVerdict(action=action, reason=f"{root.title}; its cause is not in the logs")
    return JobVerdict(action=action, fault=fault, reason=f"{root.title}: {reason}")


def _action_of(failure: KnownFailure) -> Action:
    if failure.verdict:
        return failure.verdict
    if failure.severity != "fatal":
        return "unknown"
    if failure.victim:
        return "restart"
    return "unknown" if failure.secondary else "stop"


def _exclude(
    ledger: Ledger, root: KnownFailure, guilty: Guilt | None, nodes: Sequence[str]
) -> JobVerdict:
    accused = nodes_of_guilty(ledger, guilty, nodes)
    if root.node:
        accused = _as_named(_nodes_in_lines(ledger, root), nodes)
    known = set(ledger.nodes) | set(nodes)
    if not accused:
        reason = (
            f"{root.title}: a defect of a node, whose name is not in the logs (--nodes names it)"
        )
        return JobVerdict(action="unknown", fault="hardware", reason=reason)
    if len(accused) > 1 and len(accused) >= len(known):
        reason = f"{root.title}: every node shows it, so what they share may be at fault"
        return JobVerdict(action="unknown", fault="hardware", reason=reason)
    return JobVerdict(
        action="exclude",
        fault="hardware",
        nodes=accused,
        reason=f"{root.title}: a defect of the node",
    )


def _nodes_in_lines(ledger: Ledger, root: KnownFailure) -> tuple[str, ...]:
    names = {
        match[1]
        for sighting in ledger.failures.get(root.id, Occurrences()).by_origin.values()
        if (match := re.search(root.node, sighting.text))
    }
    return tuple(sorted(names))


def nodes_of_guilty(
    ledger: Ledger, guilty: Guilt | None, nodes: Sequence[str] = ()
) -> tuple[str, ...]:
    """The guilty's nodes by torchrun's hosts, the logs or the user; of ``nodes`` alone if any."""
    if guilty is None:
        return tuple(nodes) if len(nodes) == 1 and len(ledger.nodes) <= 1 else ()
    hosts = [ledger.ended[rank].node for rank in guilty.ranks if rank in ledger.ended]
    if len(hosts) < len(guilty.ranks) or not ITSELF.isdisjoint({*hosts, ""}):
        hosts = []
    for names in (hosts, guilty.nodes):
        if names and (known := _as_named(names, nodes)):
            return known
    if len(nodes) == 1:
        return tuple(nodes)
    size = ledger.job_size
    if not guilty.ranks or not nodes or not size or size % len(nodes):
        return ()
    each = size // len(nodes)
    return tuple(sorted({nodes[rank // each] for rank in guilty.ranks if rank < size}))


def _as_named(names: Iterable[str], nodes: Sequence[str]) -> tuple[str, ...]:
    if not nodes:
        return tuple(sorted(set(names)))
    called = {node.partition(".")[0]: node for node in nodes}
    short = {name.partition(".")[0] for name in names}
    return tuple(sorted(called[name] for name in short)) if short <= called.keys() else ()


def _own_ends(ledger: Ledger, waits: Occurrences) -> list[Ended]:
    waited = waits.ranks | set(ledger.watched)
    first = [ended for ended in ledger.ended.values() if ended.first]
    first += [ledger.first] if ledger.first and not first else []
    return [ended for ended in first if ended.rank not in waited]


def _by_error(ledger: Ledger, waits: Occurrences) -> JobVerdict | None:
    own = _own_ends(ledger, waits)
    killed = "was killed from outside, mostly for want of host memory"
    return (
        _by_signal(own, _CRASHES, "stop", "crashed")
        or _by_exception(ledger, waits)
        or _by_signal(own, {signal.SIGKILL}, "stop", killed)
    )


def _by_signal(
    ended: Iterable[Ended], signals: Iterable[int], action: Action, what: str
) -> JobVerdict | None:
    for process in ended:
        if process.code is not None and -process.code in signals:
            name = signal.Signals(-process.code).name
            fault: Fault = "software" if action == "stop" else "signal"
            reason = f"rank {process.rank} {what} ({name})"
            return JobVerdict(action=action, fault=fault, reason=reason)
    return None


def _by_exception(ledger: Ledger, waits: Occurrences) -> JobVerdict | None:
    own = [
        sighting
        for seen in ledger.exceptions.values()
        for sighting in seen.by_origin.values()
        if waits.came_after(sighting) and not ledger.is_caught(sighting)
    ]
    first = earliest(own)
    if first is None:
        return None
    text = _shorten(first)
    if first.origin in ledger.signalled:
        reason = f"{text}, raised where a signal was handled: it was ended from outside"
        return JobVerdict(action="restart", fault="signal", reason=reason)
    if _IS["passing"].match(first.text):
        reason = f"{text}: a connection or a signal, which may not happen again"
        return JobVerdict(action="restart", fault="communication", reason=reason)
    reason = f"{text}: an exception of the code, which would be raised again"
    return JobVerdict(action="stop", fault="software", reason=reason)


def _by_death(ledger: Ledger) -> JobVerdict | None:
    first = earliest(seen.first for seen in ledger.deaths.values())
    if first is None:
        return None
    text = _shorten(first)
    if _IS["crashed"].search(first.text):
        return JobVerdict(action="stop", fault="software", reason=text)
    if _IS["killed"].search(first.text):
        reason = f"{text}: the host's memory was full, or somebody ended it; the log does not say"
        return JobVerdict(action="unknown", fault="signal", reason=reason)
    if _IS["terminated"].search(first.text):
        return JobVerdict(action="restart", fault="signal", reason=f"{text}: ended from outside")
    return None


def _shorten(sighting: Sighting) -> str:
    text = sighting.text if len(sighting.text) <= _SHORT else f"{sighting.text[:_SHORT]}..."
    return text if sighting.origin.rank is None else f"rank {sighting.origin.rank}: {text}"
