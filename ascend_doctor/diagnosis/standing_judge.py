"""Who holds a job up, of stacks and kernel states alone: of ranks that no recorder speaks for."""

from collections import Counter
from collections.abc import Mapping

from ascend_doctor.diagnosis.stacks import (
    Frame,
    is_of_c10d,
    loads_data,
    program_frame,
    waits_for_device,
    waits_in_python,
)
from ascend_doctor.diagnosis.stall_result import Absence, AbsentRank, Standing
from ascend_doctor.findings import first_of, quantity, spans

# States of proc(5): stopped, traced, zombie; and a missing process.
_STOPPED, _ENDED = frozenset({"T", "t"}), frozenset({"Z", "gone"})
_SLEEPS = frozenset({"nanosleep", "clock_nanosleep"})
_SAID = {
    **dict.fromkeys(("pause", "rt_sigsuspend", "rt_sigtimedwait"), "it waits for a signal"),
    **dict.fromkeys(("connect", "accept", "recvfrom"), "it waits for the network"),
    "wait4": "it waits for a process that it started",
}
_VERBS = {
    **dict.fromkeys(("read", "readv", "pread64"), "read"),
    **dict.fromkeys(("write", "writev", "pwrite64", "fsync", "fdatasync"), "write"),
    **dict.fromkeys(("flock", "fcntl"), "lock"),
    "openat": "open",
}
# Of a processor's time: more is no wait in the kernel.
BUSY = 0.5


def judge_standings(standings: Mapping[int, Standing]) -> tuple[tuple[AbsentRank, ...], str]:
    """The ranks that do not wait while others do, and else why no rank is named.

    A rank waits if its main thread is in a call of torch.distributed or of torch_npu. A call of
    Python that could be either, such as ``loss.item()``, is never accused.
    """
    moved = sum(standing.moved for standing in standings.values())
    if moved > len(standings) / 2:
        return (), f"{moved} of {quantity(len(standings), 'rank')} moved while they were watched"
    idle = sum(standing.processor < BUSY for standing in standings.values())
    reasons = {
        rank: _reason(standing, alone=idle == len(standings) - 1)
        for rank, standing in standings.items()
    }
    absent = tuple(
        AbsentRank(
            rank=rank,
            kind=reason[0],
            reason=reason[1],
            line=line_of(standings[rank].frames),
            helpers=_busy_helpers(standings[rank]),
        )
        for rank, reason in sorted(reasons.items())
        if reason
    )
    # Whoever is left waits for one that ended, also in a sleep.
    lost = tuple(rank for rank in absent if rank.kind in {"stopped", "gone"})
    waiting = [rank for rank, standing in standings.items() if waits_for_device(standing.frames)]
    if lost or (absent and waiting):
        return lost or absent, ""
    if other := _find_other_call(standings):
        return (other,), ""
    return (), _explain_doubt(standings, waiting)


def _find_other_call(standings: Mapping[int, Standing]) -> AbsentRank | None:
    """The one rank in another call of torch.distributed than all others, which share a line."""
    calls = {
        rank: next((frame.function.lstrip("i") for frame in each.frames if is_of_c10d(frame)), "")
        for rank, each in standings.items()
    }
    numbers = Counter(calls.values()).most_common()
    if "" in calls.values() or len(numbers) != 2 or not numbers[0][1] > numbers[1][1] == 1:  # noqa: PLR2004 - one differs
        return None
    (usual, _), (other, _) = numbers
    rank = next(rank for rank, call in calls.items() if call == other)
    if len({line_of(each.frames) for number, each in standings.items() if number != rank}) > 1:
        return None
    return AbsentRank(
        rank=rank,
        kind="other call",
        reason=f"it is in {other} of torch.distributed, and the others wait in {usual}",
        line=line_of(standings[rank].frames),
    )


def _explain_doubt(standings: Mapping[int, Standing], waiting: list[int]) -> str:
    unread = [rank for rank, standing in standings.items() if not standing.frames]
    if len(unread) == len(standings):
        calls: dict[str, list[int]] = {}
        for rank, standing in standings.items():
            calls.setdefault(_say_call(standing), []).append(rank)
        shown = sorted(calls.items(), key=lambda call: len(call[1]))
        ranks = [f"rank {spans(sorted(each))}: {call}" for call, each in shown]
        return f"no stack of a rank could be read ({first_of(ranks, 4)})"
    places: dict[str, list[int]] = {}
    for rank, standing in standings.items():
        places.setdefault(line_of(standing.frames), []).append(rank)
    alone = [(line, ranks[0]) for line, ranks in places.items() if line and len(ranks) == 1]
    if len(alone) == 1 and len(standings) > 2:  # noqa: PLR2004 - one of a majority
        line, rank = alone[0]
        return f"only rank {rank} is elsewhere, at {line}, and may wait there for its NPU"
    if len(waiting) == len(standings):
        return f"all {quantity(len(waiting), 'rank')} wait in calls of torch or torch_npu"
    ranks = [f"rank {spans(sorted(each))}" for each in places.values()]
    return f"no rank is in a call that shows what it waits for ({first_of(ranks, 4)})"


def _reason(standing: Standing, *, alone: bool) -> tuple[Absence, str] | None:
    """Why a rank holds the others up; None if it waits, or may.

    ``alone``: no other rank is busy. One that waits for its NPU may be, too.
    """
    if lost := describe_lost(standing):
        return lost
    if waits_for_device(standing.frames) or not standing.frames:
        return None
    if standing.moved or (alone and standing.processor >= BUSY):
        return "working", f"it goes on, {standing.processor:.0%} of a processor busy"
    doing = say_doing(standing)
    if not (doing or standing.npu):
        doing = f"it is in `{standing.source}`"
    return ("elsewhere", doing) if doing else None


def describe_lost(standing: Standing) -> tuple[Absence, str] | None:
    if standing.state in _STOPPED:
        return "stopped", "its process is stopped (state T): SIGSTOP, or a debugger"
    if standing.state in _ENDED:
        how = f" with {standing.ended}" if standing.ended else ""
        return "gone", f"its process has ended{how}"
    return None


def say_doing(standing: Standing) -> str:
    if loads_data(standing.frames):
        return "it waits for a process that loads its data"
    if standing.call in _SLEEPS:
        return "it sleeps" if "sleep" in standing.source else ""
    if standing.call in _VERBS:
        return f"it waits to {_VERBS[standing.call]} {standing.file or 'a file'}"
    if standing.call:
        return _SAID[standing.call]
    if standing.frames and waits_in_python(standing.frames[0]):
        return f"it waits in {standing.frames[0].function} of Python's library"
    return f"it waits in `{standing.source}` for a lock" if standing.locks else ""


def _say_call(standing: Standing) -> str:
    """What the kernel alone shows of a rank."""
    if standing.processor >= BUSY:
        return f"{standing.processor:.0%} of a processor busy"
    return "it sleeps" if standing.call in _SLEEPS else say_doing(standing) or "it waits"


def _busy_helpers(standing: Standing) -> tuple[str, ...]:
    return tuple(
        line for frames in standing.helpers if not loads_data(frames) and (line := line_of(frames))
    )


def line_of(frames: tuple[Frame, ...]) -> str:
    frame = program_frame(frames)
    return str(frame) if frame else ""
