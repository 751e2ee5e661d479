"""Which rank or node began it. A time-out names its victim: whoever waited prints it."""

import re
import signal
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

import msgspec

from ascend_doctor.diagnosis.exception_rules import OF_ENVIRONMENT
from ascend_doctor.diagnosis.ledger import Ledger, Occurrences, Sighting, WatchdogReport, earliest
from ascend_doctor.diagnosis.link_ends import LinkEnd, LinkJudge
from ascend_doctor.diagnosis.processes import HcclPeer
from ascend_doctor.diagnosis.result import Evidence, Guilt
from ascend_doctor.diagnosis.stall_result import Stall
from ascend_doctor.diagnosis.waiting import Party
from ascend_doctor.matrix.schema import KnownFailure

_TEXT = 400
# Ranks report a joint time-out within these seconds; starts are never as even: less says nothing.
_APART = 30.0
# An exception around an HCCL time-out names HCCL or a runtime call, within these seconds or lines.
_HCCL = re.compile(r"HCCL|[Hh]ccl|\baclrt")
EndTexts = Mapping[str, tuple[str, str, str]]
# Ends that say less than an error of the rank.
_SILENT = frozenset({"missing", "not-created", "ended"})
_TIMED_OUT = re.compile(r"HCCL function error: .{0,160}, error code is 9\b")
# HCCL looks for the broken link for 20 s and more before it returns (detect_connect_anomalies.cc).
_WRAPS_SECONDS, _WRAPS_LINES = 60.0, 60
# The stacks and the flight recorders of all ranks say what no log does.
_REMEDY = (
    "started with `ascend-doctor run -- COMMAND`, the job says at its next stall which rank did "
    "not come, and the source line where it stands"
)
# So many that agree are the rule, and who does not is the exception.
_MANY = 2


def evidence(sighting: Sighting) -> Evidence:
    text = sighting.text
    return Evidence(
        file=sighting.file,
        line=sighting.line,
        text=text if len(text) <= _TEXT else f"{text[:_TEXT]}...",
        rank=sighting.origin.rank,
        local_rank=sighting.origin.local,
        node=sighting.origin.node,
        process=sighting.origin.process,
        time=sighting.moment.text if sighting.moment else "",
    )


def fold_wrappers(ledger: Ledger, waits: Occurrences) -> None:
    """Count exceptions around a rank's own time-out as logged lines, not as errors of the rank."""
    ends = [*waits.by_origin.values(), *(waited.sighting for waited in ledger.timed_out.values())]
    for text, seen in list(ledger.exceptions.items()):
        wrappers = {
            origin: sighting
            for origin, sighting in seen.by_origin.items()
            if _TIMED_OUT.search(sighting.text)
            or (_HCCL.search(sighting.text) and any(_wraps(sighting, end) for end in ends))
        }
        if wrappers:
            ledger.logged.setdefault(text, Occurrences(count=seen.count, by_origin=wrappers))
            seen.by_origin = {
                origin: sighting
                for origin, sighting in seen.by_origin.items()
                if origin not in wrappers
            }
        if not seen.by_origin:
            del ledger.exceptions[text]


def _wraps(raised: Sighting, end: Sighting) -> bool:
    same_rank = raised.origin.rank is not None and raised.origin.rank == end.origin.rank
    if not same_rank and raised.origin != end.origin:
        return False
    if raised.moment and end.moment:
        return abs(raised.moment.seconds - end.moment.seconds) <= _WRAPS_SECONDS
    return raised.file == end.file and abs(raised.line - end.line) <= _WRAPS_LINES


def guilty_of_hang(ledger: Ledger, stall: Stall) -> Guilt | None:
    ranks = tuple(rank.rank for rank in stall.absent)
    if not ranks:
        return None
    reason = stall.absent[0].reason if len(ranks) == 1 else "did not come where others wait"
    return complete(ledger, Guilt(ranks=ranks, reason=reason))


def complete(ledger: Ledger, culprit: Guilt) -> Guilt:
    """Add nodes, devices and serial numbers."""
    culprit = _locate(ledger, culprit) if culprit.ranks else culprit
    node = culprit.nodes[0] if len(culprit.nodes) == 1 else ""
    serials = [ledger.serial(node, device) for device in culprit.devices]
    return msgspec.structs.replace(culprit, serials=tuple(serials) if all(serials) else ())


def _locate(ledger: Ledger, culprit: Guilt) -> Guilt:
    places = ledger.places.of(culprit.ranks)
    local_ranks = [location.local for location in places if location.local is not None]
    devices = [location.device for location in places if location.device is not None]
    nodes = tuple(sorted({location.node for location in places if location.node}))
    return msgspec.structs.replace(
        culprit,
        local_ranks=tuple(local_ranks) if len(local_ranks) == len(places) else (),
        devices=tuple(devices) if len(devices) == len(places) else (),
        nodes=culprit.nodes or nodes,
        servers=tuple(sorted({location.server for location in places if location.server})),
    )


def guilty(
    ledger: Ledger,
    root: KnownFailure | None,
    seen: Occurrences | None,
    waits: Occurrences,
    texts: EndTexts,
) -> Guilt | None:
    """Who began it, or None. ``seen``: the root cause's lines; ``waits``: lines with a victim.

    ``texts``: reason, facts and remedy by the end of a link set-up.
    """
    links = LinkJudge(ledger)
    if root and (root.victim or root.id.startswith(("hccl-", "ei0"))) and (end := links.find()):
        shown = _accuse_who_shows(ledger, seen) if seen and not root.victim else None
        if not (shown and end.end in _SILENT and set(end.parties) <= set(shown.ranks)):
            return _describe_end(ledger, end, texts)
    if root is None or seen is None:
        first = None
        if not (_is_one_end(ledger) or _is_shared(ledger)):
            first = _by_summary(ledger, frozenset(ledger.watched)) or _first_raised(ledger)
        return first or _accuse_by_name(ledger) or _chain(ledger) or _alone(ledger)
    if root.by_type:
        # Ranks share their packages.
        others = waits.ranks or ledger.watched or root.id != "python-import-failed"
        if not others or _is_one_end(ledger) or _is_common(ledger, root, seen):
            return None
        ended = _by_summary(ledger, frozenset(ledger.watched))
        return (None if OF_ENVIRONMENT.fullmatch(root.id) else ended) or _accuse_who_shows(
            ledger, seen
        )
    if not root.victim:
        return None if _is_common(ledger, root, seen) else _accuse_who_shows(ledger, seen)
    waited = frozenset(waits.ranks | set(ledger.watched))
    ended = _accuse_who_raised(ledger, waits) or _by_summary(ledger, waited)
    return (
        _accuse_by_name(ledger)
        or (ended and _describe_ended(ledger, ended, texts))
        or _stuck(ledger, waited)
        or _out_of_step(ledger)
        or ((end := links.infer()) and _describe_end(ledger, end, texts))
        or _chain(ledger)
        or _silent(ledger, waited)
        or _last_to_come(ledger, seen)
    )


def describe_undecided(
    ledger: Ledger, root: KnownFailure | None, seen: Occurrences | None, waits: Occurrences
) -> str:
    """What the logs say of a failure without an accused; ``seen`` as for `guilty`."""
    if ledger.clocks.unrelated:
        return (
            f"the logs of {', '.join(sorted(ledger.clocks.unrelated)[:8])} are of another time "
            "than those of other nodes, so their clocks differ, and nothing says by how much; "
            "which node was first could not be told"
        )
    if root is not None and not root.victim:
        common = seen if seen and _is_common(ledger, root, seen) else None
        who = (
            "every rank shows it" if common and _is_of_all(ledger, common) else "most ranks show it"
        )
        return f"{who}, so that the cause is common to them" if common else ""
    if root is None and _is_one_end(ledger):
        return "several ranks ended in the same second; torchrun's order of them tells nothing"
    if root is None and _is_shared(ledger):
        return "most ranks raise the same error, so that its cause is common to them"
    if root is None or not ledger.watched:
        return _describe_chain(ledger) if ledger.waiting.edges else ""
    return "; ".join(_describe_waits(ledger, waits))


def _describe_waits(ledger: Ledger, waits: Occurrences) -> Iterator[str]:
    waited = waits.ranks | set(ledger.watched)
    operations = {watched.operation for watched in ledger.watched.values()}
    timed_out = _describe_timed_out(waited)
    if len(operations) > 1 or waited - set(ledger.watched):
        yield f"{timed_out}, not all in the same collective"
    else:
        yield timed_out
    late = set().union(*(report.late for report in _whole_reports(ledger)))
    silent = _everyone(ledger) - waited
    if len(late) > 1:
        yield f"ranks {_numbers(late)} did not join, and may wait for a peer"
    elif late:
        yield f"rank {_numbers(late)} did not join, and may wait for a peer"
    elif len(silent) > 1:
        yield (
            f"ranks {_numbers(silent)} were ended before they said anything, and one of them, or"
            " several, did not come"
        )
    elif silent:
        yield (f"rank {_numbers(silent)} was ended before it said anything, and may not have come")
    yield _REMEDY


def _describe_timed_out(ranks: set[int]) -> str:
    if len(ranks) == 1:
        return f"rank {_numbers(ranks)} reports a time-out"
    return f"ranks {_numbers(ranks)} report a time-out"


def _describe_chain(ledger: Ledger) -> str:
    pairs = ledger.waiting.describe(lambda party: _call(ledger, party))
    return "; ".join((pairs, *_describe_ends(ledger)))


def _describe_ends(ledger: Ledger) -> Iterator[str]:
    ends = ledger.waiting.ends(ledger.has_log)
    if ends.lone:
        who = ", ".join(_call(ledger, party) for party in ends.lone)
        yield f"of {who} there is no log, and one complaint does not say which end it was"
    rings = [ring for ring in ends.sinks if len(ring) > 1]
    if rings:
        yield f"{' and '.join(_call(ledger, party) for party in rings[0][:8])} wait in a ring"
    if len(ends.sinks) > 1:
        yield f"the chains have {len(ends.sinks)} ends"


def _call(ledger: Ledger, party: Party) -> str:
    if isinstance(party, str):
        return party
    (location,) = ledger.places.of([party])
    parts = [
        location.node,
        location.server,
        f"device {location.device}" if location.device is not None else "",
    ]
    parts += [] if ledger.has_log(party) else [ledger.waiting.addresses.get(party, ""), "no log"]
    where = ", ".join(filter(None, parts))
    return f"rank {party} ({where})" if where else f"rank {party}"


def _numbers(ranks: Iterable[int]) -> str:
    return ", ".join(str(rank) for rank in sorted(ranks))


def _describe_end(ledger: Ledger, end: LinkEnd, texts: EndTexts) -> Guilt:
    ranks = tuple(sorted(party for party in end.parties if isinstance(party, int)))
    names = tuple(party for party in end.parties if isinstance(party, str))
    nodes = sorted({known.node for known in ledger.places.of(ranks) if known.node})
    known = (party if party in names else f"rank {party}" for party in end.parties)
    words = {"ranks": ", ".join(map(str, known)), "nodes": ", ".join(nodes) or "its node"}
    reason, facts, fix = (
        text.format_map({**words, **end.words}) for text in texts.get(end.end, (end.end, "", ""))
    )
    return Guilt(
        ranks=ranks,
        processes=names,
        reason=reason,
        end=end.end,
        facts=facts,
        fix=fix,
        sure=end.sure,
        evidence=_first_of(ledger, ranks),
    )


def _describe_ended(ledger: Ledger, ended: Guilt, texts: EndTexts) -> Guilt:
    if not ended.ranks:
        return ended
    end = _describe_end(ledger, LinkEnd(end="ended", parties=ended.ranks), texts)
    return msgspec.structs.replace(ended, end=end.end, facts=end.facts, fix=end.fix)


def _of(sighting: Sighting, *, reason: str, sure: bool = True) -> Guilt | None:
    origin = sighting.origin
    if not replace(origin, task=None).named:
        return None
    return Guilt(
        ranks=() if origin.rank is None else (origin.rank,),
        local_ranks=() if origin.local is None else (origin.local,),
        devices=() if origin.device is None else (origin.device,),
        nodes=(origin.node,) if origin.node else (),
        processes=(origin.process,) if origin.process and origin.rank is None else (),
        reason=reason,
        sure=sure,
        evidence=evidence(sighting),
    )


def _accuse_who_shows(ledger: Ledger, seen: Occurrences) -> Guilt | None:
    ranks, every = seen.ranks, _is_of_all(ledger, seen)
    nodes = {origin.node for origin in seen.by_origin}
    places = zip(ledger.ranks, ledger.places.of(ledger.ranks), strict=True)
    whole = every or ranks == {rank for rank, at in places if at.node in nodes}
    if len(ranks) > 1 and (whole or not seen.first.moment):
        who = "every rank" if every else f"{len(ranks)} ranks"
        return Guilt(
            ranks=tuple(sorted(ranks)),
            nodes=tuple(sorted(filter(None, nodes))),
            reason=f"{who} show it: the cause is common to them",
            evidence=evidence(seen.first),
        )
    ended = None if ranks else _by_summary(ledger, frozenset())
    own = [each for each in ledger.ended.values() if each.code != -signal.SIGTERM]
    if ended and ("signal 9" in ended.reason or seen.count == len(own) == 1):
        return ended
    many = len(seen.by_origin) > 1 or bool(ledger.ranks or ledger.nodes)
    if not many and seen.first.origin.local is None:
        return None
    return _of(seen.first, reason="it is the first that shows the cause")


def _is_common(ledger: Ledger, root: KnownFailure, seen: Occurrences) -> bool:
    """Whether most ranks show what is not a defect of a node, which accuses none."""
    most = len(seen.ranks) > 1 and 2 * len(seen.ranks) > len(ledger.ranks) - root.by_type
    return (root.by_type or root.verdict != "exclude") and most


def _is_of_all(ledger: Ledger, seen: Occurrences) -> bool:
    return len(seen.ranks) > 1 and len(seen.ranks) >= len(ledger.ranks)


def _accuse_by_name(ledger: Ledger) -> Guilt | None:
    """HCCL says whose heartbeat stopped (hicann/hccl: task_exec_stage.md)."""
    first = earliest(lost.first for lost in ledger.lost.values())
    if first is None:
        return None
    peer = next(name for name, lost in ledger.lost.items() if lost.first == first)
    what = re.search("Heartbeat Lost|Stuck|[Ee]rror cqe", first.text)
    server, _, card = peer.rpartition("/")
    device = int(card) if card.isdecimal() else None
    process = ledger.processes.find(first.origin, HcclPeer(server=server, device=device))
    rank = ledger.processes.rank_of(process) if process else None
    return Guilt(
        ranks=() if rank is None else (rank,),
        nodes=() if rank is not None else (peer,),
        reason=f"HCCL's heartbeat reports it first, as address/device: {what[0] if what else ''}",
        evidence=evidence(first),
    )


def _accuse_who_raised(ledger: Ledger, waits: Occurrences) -> Guilt | None:
    several = [
        sighting
        for kind in (*ledger.exceptions.values(), *ledger.deaths.values())
        for sighting in kind.by_origin.values()
        if sighting.origin.named
        and not _is_of_launcher(ledger, sighting)
        and waits.came_after(sighting)
    ]
    own = earliest(several) if ledger.in_order(several) else None
    return (
        _of(own, reason="it failed with an error of its own, the others waited for it")
        if own
        else None
    )


def _is_of_launcher(ledger: Ledger, sighting: Sighting) -> bool:
    """Whether torchrun says it of a process of its own, which may have waited."""
    origin = sighting.origin
    numbers = (origin.rank, origin.local, origin.task)
    apart = bool(origin.process) or any(number is not None for number in numbers)
    return not apart and bool(ledger.ended or ledger.first)


def _by_summary(ledger: Ledger, waited: frozenset[int]) -> Guilt | None:
    """The process that torchrun saw fail first, unless it waited for others.

    A watchdog that lost patience aborts its own process, and torchrun sees that one first.
    """
    first = [ended for ended in ledger.ended.values() if ended.first]
    ended = min(first, key=lambda ended: ended.sighting.when) if first else ledger.first
    # torchrun itself sends SIGTERM to all others as soon as one has failed.
    if ended is None or ended.rank in waited or ended.code == -signal.SIGTERM:
        return None
    reason = "torchrun saw it fail first"
    if ended.code is not None and ended.code < 0:
        reason = f"torchrun saw it fail first (killed by signal {-ended.code})"
    return Guilt(
        ranks=(ended.rank,),
        nodes=(ended.node,) if ended.node else (),
        reason=reason,
        evidence=evidence(ended.sighting),
    )


def _stuck(ledger: Ledger, waited: frozenset[int]) -> Guilt | None:
    """The one that SIGKILL ended, 30 s after SIGTERM: it was stopped, or in the kernel.

    torch/distributed/elastic/multiprocessing/api.py, PContext.close; SIGTERM ends waiting ranks.
    """
    ended = {rank: process for rank, process in ledger.ended.items() if rank not in waited}
    killed = [
        process
        for process in ended.values()
        if process.code == -signal.SIGKILL and not process.first
    ]
    others = [process.code for process in ended.values() if process not in killed]
    if len(killed) != 1 or any(code != -signal.SIGTERM for code in others):
        return None
    return Guilt(
        ranks=(killed[0].rank,),
        nodes=(killed[0].node,) if killed[0].node else (),
        reason="it did not end on SIGTERM as the others did, it was stopped or stuck in the kernel",
        evidence=evidence(killed[0].sighting),
    )


def _out_of_step(ledger: Ledger) -> Guilt | None:
    """The one rank that did not join what all others joined, as torch_npu's watchdog reports it.

    Several may wait for each other elsewhere; a rank of a pipeline may wait for its peer.
    """
    reports = _whole_reports(ledger)
    late = set().union(*(report.late for report in reports))
    if len(late) != 1 or any(report.busy or late & report.paired for report in reports):
        return None
    return Guilt(
        ranks=tuple(late),
        reason="torch_npu's watchdog reports that it did not join the collective of the others",
    )


def _whole_reports(ledger: Ledger) -> list[WatchdogReport]:
    every = _everyone(ledger)
    return [report for report in ledger.reports if report.members == every]


def _chain(ledger: Ledger) -> Guilt | None:
    """Follow the waits to the ranks that wait for none.

    Ranks ended in silence may have waited unless all await them (hicann/hccl: param_link_stage.md).
    """
    waiting = ledger.waiting
    sinks = waiting.ends(ledger.has_log).sinks
    if len(sinks) > 1:
        together = _on_one_host(ledger, sinks)
        sinks = (together,) if together else ()
    accused = sinks[0] if sinks else ()
    ring = bool(accused) and accused[0] in waiting.edges
    if not accused or (ring and not waiting.connects(accused)):
        return None
    reason = "the others wait for it, and it reports to wait for nobody"
    if ring:
        reason = "they wait for each other"
    elif not ledger.has_log(accused[0]):
        address = waiting.addresses.get(accused[0], "")
        reason = "the others wait for it, and it left no log" + (f" ({address})" * bool(address))
    elif ends := waiting.broken_link(accused):
        accused, reason = ends, "the link between them broke, and one of them complains"
    ranks = sorted(party for party in accused if isinstance(party, int))
    if not ledger.watched.keys().isdisjoint(ranks):
        return None
    others = _everyone(ledger) - set(ranks)
    if _torchrun_ended(ledger, ranks) and not others <= waiting.edges.keys():
        return None
    names = tuple(party for party in accused if isinstance(party, str))
    return Guilt(
        ranks=tuple(ranks),
        nodes=() if ranks else names,
        reason=reason,
        sure=False,
        evidence=_first_of(ledger, ranks),
    )


def _first_of(ledger: Ledger, ranks: Collection[int]) -> Evidence | None:
    first = ledger.first_error_of(ranks)
    return evidence(first) if first else None


def _on_one_host(ledger: Ledger, sinks: Iterable[tuple[Party, ...]]) -> tuple[Party, ...]:
    """Several ends that have a host in common: it is the host, or what is on it."""
    every = [party for sink in sinks for party in sink]
    ranks = [party for party in every if isinstance(party, int)]
    hosts = {location.server or location.node for location in ledger.places.of(ranks)}
    alone = len(ranks) == len(every) and all(rank not in ledger.waiting.edges for rank in ranks)
    return tuple(ranks) if alone and len(hosts) == 1 and "" not in hosts else ()


def _alone(ledger: Ledger) -> Guilt | None:
    alone = ledger.shows_failure and ledger.job_size == 1 and ledger.ranks == {0}
    return Guilt(ranks=(0,), reason="the job has no other rank") if alone else None


def _everyone(ledger: Ledger) -> set[int]:
    known = set(range(ledger.world_size)) if ledger.world_size else set(ledger.ranks)
    return known | set(ledger.ended)


def _silent(ledger: Ledger, waited: frozenset[int]) -> Guilt | None:
    """The few ranks that do not report the time-out that the others report.

    Silence says nothing if torchrun ends all ranks once the first watchdog aborts. Nor does it
    if the others wait in different collectives, of which one may be for some of them only.
    """
    every = _everyone(ledger)
    silent = every - waited
    if not waited or not silent or len(silent) >= len(waited):
        return None
    if len({watched.operation for watched in ledger.watched.values()}) > 1:
        return None
    if _torchrun_ended(ledger, silent):
        return None
    return Guilt(
        ranks=tuple(sorted(silent)),
        reason=f"{len(waited)} of {len(every)} ranks report the time-out, these do not",
        sure=False,
    )


def _torchrun_ended(ledger: Ledger, ranks: Iterable[int]) -> bool:
    codes = [ledger.ended[rank].code for rank in ranks if rank in ledger.ended]
    return -signal.SIGTERM in codes


def _last_to_come(ledger: Ledger, seen: Occurrences) -> Guilt | None:
    """All wait equally long, so the last to report began last (hicann/hccl: task_exec_stage.md)."""
    timed = [
        sighting
        for sighting in seen.by_origin.values()
        if sighting.moment and sighting.origin.named
    ]
    if len(timed) <= 1:
        return None
    stamps = [sighting.moment.seconds for sighting in timed if sighting.moment]
    apart = max(stamps) - min(stamps)
    if apart < _APART:
        return None
    last = max(timed, key=lambda sighting: sighting.when)
    if not _late_by_its_own_node(ledger, last, timed):
        return None
    reason = f"it came to the collective last: the ranks report the time-out {apart:.0f} s apart"
    return _of(last, reason=reason, sure=False)


def _late_by_its_own_node(ledger: Ledger, last: Sighting, timed: list[Sighting]) -> bool:
    """Whether it was late and not its node's clock: a clock shifts all of its node alike."""
    nodes = {sighting.origin.node for sighting in timed}
    if len(nodes) == 1 or nodes <= ledger.clocks.compared:
        return True
    node = last.origin.node
    others = [sighting for sighting in timed if sighting.origin.node == node and sighting != last]
    stamps = [sighting.moment.seconds for sighting in (*others, last) if sighting.moment]
    return bool(others) and stamps[-1] - max(stamps[:-1]) > _APART


def _is_shared(ledger: Ledger) -> bool:
    """Whether most ranks raise the first exception: its cause is common to them."""
    first = earliest(seen.first for seen in ledger.exceptions.values())
    seen = next((seen for seen in ledger.exceptions.values() if seen.first == first), None)
    if seen is None:
        return False
    if seen.ranks:
        return len(seen.ranks) > 1 and 2 * len(seen.ranks) >= len(ledger.ranks)
    if any(end.code == -signal.SIGTERM for end in ledger.ended.values()):
        return False
    # One rank may print its exception twice, where it wraps it.
    return seen.count >= max(len(ledger.ended), _MANY if len(ledger.ended) > 1 else 2 * _MANY)


def _is_one_end(ledger: Ledger) -> bool:
    """Whether several ranks ended with one code in a second: torchrun's first is only lowest."""
    ends = Counter(
        (end.code, end.time)
        for end in ledger.ended.values()
        if end.code is not None and end.code > 0 and end.time
    )
    return max(ends.values(), default=0) > max(_MANY, len(ledger.ended) // 2)


def _first_raised(ledger: Ledger) -> Guilt | None:
    """The first error; a single rank shows nothing of the others."""
    ends = (*ledger.exceptions.values(), *ledger.deaths.values())
    origins = {origin for seen in ends for origin in seen.by_origin}
    first = earliest(seen.first for seen in ends)
    several = max(len(origins), len(ledger.ranks), len(ledger.nodes)) > 1
    return _of(first, reason="its error is the first") if first and several else None
