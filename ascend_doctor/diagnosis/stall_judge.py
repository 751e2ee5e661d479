"""The verdict on a stall: who waits, and who did not come. Nobody is accused on a guess."""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from ascend_doctor.diagnosis.recorder import RankTrace, TracedCall, TracedGroup
from ascend_doctor.diagnosis.routine import find_departures
from ascend_doctor.diagnosis.stacks import is_of_c10d, waits_in_torch
from ascend_doctor.diagnosis.stall_graph import StallGraph
from ascend_doctor.diagnosis.stall_result import (
    Absence,
    AbsentRank,
    Position,
    Stall,
    Standing,
    WaitingRanks,
)
from ascend_doctor.diagnosis.standing_judge import (
    BUSY,
    describe_lost,
    judge_standings,
    line_of,
    say_doing,
)
from ascend_doctor.findings import first_of

_SHOWN = 8
# Of a smaller group one that calls and one that does not are equally suspect.
_MAJORITY = 3
# How many earlier calls to search for the same collective with as many members.
_BACK = 8
_MEMBERS = 16


def judge_stall(
    traces: Mapping[int, RankTrace],
    standings: Mapping[int, Standing],
    world_size: int | None = None,
) -> Stall:
    """From the dumps and positions of ranks; either may lack ranks."""
    graph = StallGraph(traces, standings)
    ranks = tuple(sorted({*traces, *standings}))
    unheard = {*range(world_size or 0)} - {*ranks}
    absent, undecided, silent = _accuse(graph, unheard)
    return Stall(
        ranks=ranks,
        world_size=world_size,
        waiting=tuple(_waiting(graph)),
        absent=absent,
        undecided="" if absent else undecided,
        silent=tuple(sorted(silent)),
        positions=tuple(
            Position(rank=rank, line=line, age=standing.age)
            for rank, standing in sorted(standings.items())
            if (line := line_of(standing.frames))
        ),
    )


def _accuse(graph: StallGraph, unheard: set[int]) -> tuple[tuple[AbsentRank, ...], str, set[int]]:
    """Who did not come, else why no rank is named and which ranks without a file are awaited.

    ``unheard`` have no file; an awaited one is likely on a lost node, or its files are elsewhere.
    """
    awaited = set().union(*graph.edges.values()) if graph.edges else set()
    if not awaited:
        return *_accuse_without_edges(graph), set()
    ends = {rank for rank in awaited if _ends_a_chain(graph, rank)}
    silent = {rank for rank in ends if _is_silent(graph, rank)}
    waits = {rank for rank in ends - silent if _waits_elsewhere(graph, rank)}
    guilty = ends - silent - waits
    # A launcher ends the others while they still compute.
    guilty = {rank for rank in guilty if graph.standing(rank).ended} or guilty
    if guilty and not silent:
        return tuple(_absent(graph, rank) for rank in sorted(guilty)), "", set()
    if silent & unheard:
        several = len(unheard) > 1
        return (), (
            f"there is no file of rank{'s' * several} {_numbers(unheard)}, which others wait for:"
            f" {'their' if several else 'its'} node is gone, or its files are elsewhere"
        ), unheard  # fmt: skip
    if silent:
        return (), _describe_silent(graph, silent), silent
    if waits:
        return *_accuse_waiting(graph, waits), set()
    return *_accuse_in_ring(graph), set()


def _accuse_waiting(graph: StallGraph, waits: set[int]) -> tuple[tuple[AbsentRank, ...], str]:
    if len(waits) == 1 and (other := _in_other_call(graph, next(iter(waits)))):
        return (other,), ""
    return (), (
        f"all chains end in rank {_numbers(waits)}, which waits for something that is no"
        " collective of the NPUs"
    )  # fmt: skip


def _describe_silent(graph: StallGraph, silent: set[int]) -> str:
    standing = graph.standing(next(iter(silent)))
    line = "" if standing.age else line_of(standing.frames)
    if len(silent) > 1 or not line:
        return f"nothing is known of rank {_numbers(silent)}, which others wait for"
    return (
        f"rank {_numbers(silent)}, which others wait for, gave no dump of what it called, as one"
        f" that holds the interpreter's lock cannot; it stands at {line}"
    )


def _ends_a_chain(graph: StallGraph, rank: int) -> bool:
    """An awaited rank that waits for none, also a stopped one."""
    lost = describe_lost(graph.standing(rank)) is not None
    return lost or (rank not in graph.edges and rank not in graph.heads)


def _is_silent(graph: StallGraph, rank: int) -> bool:
    """No dump has a rank's call, and its process gives no reason."""
    standing = graph.standing(rank)
    shows = standing.processor >= BUSY or say_doing(standing) or describe_lost(standing)
    return rank not in graph.traces and not shows


def _waits_elsewhere(graph: StallGraph, rank: int) -> bool:
    standing = graph.standing(rank)
    here = standing.age == 0 and not describe_lost(standing)
    return here and waits_in_torch(standing.frames)


def _in_other_call(graph: StallGraph, rank: int) -> AbsentRank | None:
    """The one rank in a call of torch.distributed that no recorder knows yet.

    It is accused if all others wait in another operation than that of its stack.
    """
    frames = graph.standings[rank].frames
    others = {_name(head) for head in graph.heads.values()}
    call = next((frame.function for frame in frames if is_of_c10d(frame)), "")
    if not call or len(graph.heads) < _MAJORITY or len(graph.heads) + 1 < len(graph.standings):
        return None
    if call.lstrip("i") in others or len(others) > 1:
        return None
    return AbsentRank(
        rank=rank,
        kind="other call",
        reason=f"it is in {call} of torch.distributed, and the others wait in {others.pop()}",
        line=line_of(frames),
    )


def _absent(graph: StallGraph, rank: int) -> AbsentRank:
    standing = graph.standing(rank)
    kind: Absence = "elsewhere"
    reason = "the others wait for it, and it has no collective to wait in"
    if lost := describe_lost(standing):
        kind, reason = lost
    elif doing := say_doing(standing):
        reason = f"the others wait for it, and {doing}"
    elif standing.processor >= BUSY:
        kind, reason = "working", f"it goes on, {standing.processor:.0%} of a processor busy"
    if latest := _latest(graph, rank):
        reason += f"; its last call was {latest}"
    return AbsentRank(
        rank=rank,
        kind=kind,
        reason=reason,
        line="" if kind == "gone" and standing.age else line_of(standing.frames),
        helpers=tuple(line for frames in standing.helpers if (line := line_of(frames))),
    )


def _latest(graph: StallGraph, rank: int) -> str:
    calls = [call for call in graph.traces[rank].calls if call.done] if rank in graph.traces else []
    if not calls:
        return ""
    call = calls[-1]
    return f"{_name(call)} number {call.number} of {name_group(graph.group(rank, call))}"


def _accuse_in_ring(graph: StallGraph) -> tuple[tuple[AbsentRank, ...], str]:
    """In a ring of waits, the one whose call differs from its routine."""
    ring = _ring(graph)
    if not ring:
        return (), "nobody can tell whom the last of the chain waits for"
    departures = find_departures(graph.traces, ring)
    for grades in (("never",), ("never", "not after this")):
        leavers = {rank: call for rank, (grade, call) in departures.items() if grade in grades}
        if len(leavers) == 1:
            ((rank, call),) = leavers.items()
            call = _find_superfluous(graph, rank, call)
            group = graph.group(rank, call)
            pair = call.p2p or len(group.ranks) < _MAJORITY
            if pair and not graph.was_used(call):
                return (), (
                    f"rank {rank} is alone in the first {_name(call)} of {name_group(group)}:"
                    " either it should not be there, or its peer should"
                )
            return (
                (
                    AbsentRank(
                        rank=rank,
                        kind="other call",
                        reason=f"it called {_name(call)} of {name_group(group)} where the rounds"
                        " before had another call; the others kept to theirs",
                        line=line_of(graph.standing(rank).frames),
                        call=line_of(call.frames),
                    ),
                ),
                "",
            )
        if leavers:
            break
    return (), f"ranks {_numbers(ring)} wait for each other, and none alone left its routine"


def _find_superfluous(graph: StallGraph, rank: int, call: TracedCall) -> TracedCall:
    """Of two calls of the same collective, the one that does not belong there.

    The first of them takes the number of the others' call, and ends with them. The second, the
    usual one, is then one too many. Without frames if undecided.
    """
    calls = graph.traces[rank].calls
    at = calls.index(call)
    if _is_newline_of(graph, rank, at):
        return call
    for i in range(at - 1, max(at - _BACK, 0) - 1, -1):
        if (calls[i].group, calls[i].operation, calls[i].p2p) == (
            call.group,
            call.operation,
            False,
        ):
            if _is_newline_of(graph, rank, i):
                return calls[i]
            others = {line_of(other.frames) for other in graph.calls_beside(rank, calls[i])} - {""}
            alike = not others or line_of(calls[i].frames) in {*others, line_of(call.frames)}
            return call if alike else replace(call, frames=())
    return call


def _is_newline_of(graph: StallGraph, rank: int, at: int) -> bool:
    own = graph.traces[rank].calls
    line = line_of(own[at].frames)
    members = graph.group(rank, own[at]).ranks[:_MEMBERS]
    others = (graph.traces[member].calls for member in members
              if member != rank and member in graph.traces)  # fmt: skip
    histories = (own[:at], *others)
    return bool(line) and all(
        line_of(call.frames) != line for history in histories for call in history
    )


def _ring(graph: StallGraph) -> list[int]:
    """The ranks that every chain leads into and that wait for no others, if one ring."""
    back: dict[int, set[int]] = {}
    for rank, others in graph.edges.items():
        for other in others:
            back.setdefault(other, set()).add(rank)
    ring, rank = set[int](), next(iter(graph.edges))
    while not ring:
        ahead = _reach(graph.edges, rank)
        strays = ahead - _reach(back, rank)
        if strays:
            rank = min(strays)
        elif rank in ahead:
            ring = ahead
        else:
            return []
    outside = graph.edges.keys() - ring
    if ring & graph.unclear or not ring <= graph.traces.keys() or outside - _reach(back, rank):
        return []
    return sorted(ring)


def _reach(edges: Mapping[int, set[int]], rank: int) -> set[int]:
    reached: set[int] = set()
    ahead = [rank]
    while ahead:
        others = edges.get(ahead.pop(), set()) - reached
        reached |= others
        ahead += others
    return reached


def _accuse_without_edges(graph: StallGraph) -> tuple[tuple[AbsentRank, ...], str]:
    """No rank is missing: one may not have begun what all have in their queues."""
    if not graph.traces:
        return judge_standings(graph.standings)
    if not graph.heads:
        return (), "no rank waits in a collective of the NPUs"
    late = {rank for rank, head in graph.heads.items() if not head.started}
    alike = {(head.group, head.number) for head in graph.heads.values()}
    if len(late) == 1 and len(graph.heads) > 2 and len(alike) == 1:  # noqa: PLR2004 - a majority
        (rank,) = late
        standing = graph.standing(rank)
        reason = "all have put the collective into their queues; its NPU alone has not begun it"
        line = line_of(standing.frames)
        return (AbsentRank(rank=rank, kind="not started", reason=reason, line=line),), ""
    if other := _find_other_arguments(graph):
        return (other,), ""
    if graph.unclear:
        return (), f"nobody can tell for whom rank {_numbers(graph.unclear)} waits"
    return (), "every rank of the collective is in it: it does not end by itself (a link, an NPU)"


def _find_other_arguments(graph: StallGraph) -> AbsentRank | None:
    """The one rank against a majority with another size for the collective of all."""
    ranks: dict[str, list[int]] = {}
    for rank, head in graph.heads.items():
        ranks.setdefault(head.agreed, []).append(rank)
    alike = {(head.group, head.number, head.operation) for head in graph.heads.values()}
    if len(ranks) != 2 or len(alike) != 1 or len(graph.heads) < _MAJORITY:  # noqa: PLR2004 - one differs
        return None
    (rank, *more), others = sorted(ranks.values(), key=len)
    if more:
        return None
    call = graph.heads[rank]
    return AbsentRank(
        rank=rank,
        kind="other call",
        reason=f"it passed {call.agreed} to {_name(call)} number {call.number} of "
        f"{name_group(graph.group(rank, call))}, and the others {graph.heads[others[0]].agreed}",
        line=line_of(graph.standing(rank).frames),
    )


def _waiting(graph: StallGraph) -> Iterable[WaitingRanks]:
    rows: dict[tuple[object, ...], list[int]] = {}
    for rank, head in graph.heads.items():
        group = graph.group(rank, head)
        alone = rank if head.p2p else None
        rows.setdefault((group, head.number, head.operation, alone), []).append(rank)
    for ranks in sorted(rows.values(), key=lambda ranks: (-len(ranks), ranks)):
        head = graph.heads[ranks[0]]
        group = graph.group(ranks[0], head)
        yield WaitingRanks(
            ranks=tuple(sorted(ranks)),
            operation=_name(head),
            number=head.number,
            group=name_group(group),
            group_ranks=group.ranks,
            waits_for=tuple(sorted(set().union(*(graph.edges.get(rank, ()) for rank in ranks)))),
            line=line_of(head.frames),
        )


def name_group(group: TracedGroup) -> str:
    return group.title or group.name or "an unnamed group"


def _name(call: TracedCall) -> str:
    return call.operation or ("a send or receive" if call.p2p else "a collective")


def _numbers(ranks: Iterable[int]) -> str:
    return first_of([str(rank) for rank in sorted(ranks)], _SHOWN)
