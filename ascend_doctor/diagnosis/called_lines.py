"""The Python lines of a rank's collectives (simulator/operators/calls.py), and where ranks part.

All ranks that have a process are compared: the k-th collective of a group, and the k-th transfer
from one rank to another.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import msgspec

from ascend_doctor.diagnosis.recorder import RankTrace, TracedCall, TracedGroup
from ascend_doctor.diagnosis.stacks import Frame, program_frames
from ascend_doctor.diagnosis.stall_result import Mismatch, MismatchedCall
from ascend_doctor.diagnosis.standing_judge import line_of
from ascend_doctor.errors import DataError

_DEFAULT = "default_pg"
_GROUP, _STACK = 3, 1  # elements of a row


@dataclass
class CalledLines:
    """What one rank called, in order; groups by torch_npu's names."""

    rank: int
    groups: dict[str, TracedGroup] = field(default_factory=dict)
    calls: list[TracedCall] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._collectives: dict[str, list[TracedCall]] = {}
        self._transfers: dict[tuple[str, int | None], list[TracedCall]] = {}

    def add(self, call: TracedCall, *, batched: bool) -> None:
        """A call, numbered in its group or, for transfers, communicator."""
        numbered: list[TracedCall]
        if not call.p2p:
            numbered = self._collectives.setdefault(call.group, [])
        else:
            # torch_npu gives a batch to the group's communicator, others to one of the pair.
            numbered = self._transfers.setdefault((call.group, None if batched else call.peer), [])
        call = msgspec.structs.replace(call, number=len(numbered) + 1)
        numbered.append(call)
        self.calls.append(call)

    def collectives(self, group: str) -> Sequence[TracedCall]:
        return self._collectives.get(group, ())

    def transfers(self, group: str, peer: int | None, operation: str) -> list[TracedCall]:
        """Those of a group with a peer, in order."""
        calls = (*self._transfers.get((group, peer), ()), *self._transfers.get((group, None), ()))
        alike = [call for call in calls if (call.peer, call.operation) == (peer, operation)]
        return sorted(alike, key=lambda call: call.entered)

    def peers(self) -> set[tuple[str, int]]:
        return {(call.group, call.peer) for call in self.calls if call.peer is not None}

    def find_frames(self, call: TracedCall, group: TracedGroup) -> tuple[Frame, ...]:
        """The stack of a call of HCCL's; empty if unclear."""
        if not call.p2p:
            matching = self.collectives(call.group)
        else:
            numbered = [
                calls
                for (name, peer), calls in self._transfers.items()
                if (name == call.group and peer is None)
                or (peer == call.peer and group.name not in self.groups)
            ]
            matching = numbered[0] if len(numbered) == 1 else ()
        at = call.number - 1
        alike = 0 <= at < len(matching) and _is_alike(matching[at].operation, call.operation)
        return matching[at].frames if alike else ()


def _is_alike(name: str, hccl: str) -> bool:
    """Whether HCCL's operation is that of torch; alltoall is also AlltoAllV and AlltoAllVC."""
    return hccl.startswith(name) or name in {"barrier", "gather", "scatter"}


def parse_called_lines(data: bytes, rank: int, name: str) -> CalledLines:
    """Rows of JSON; the last may be cut. Raises DataError."""
    lines = CalledLines(rank)
    stacks: list[tuple[Frame, ...]] = []
    try:
        for text in data.split(b"\n")[:-1]:
            _read_row(msgspec.json.decode(text), lines, stacks)
    except (msgspec.MsgspecError, TypeError, ValueError, IndexError) as error:
        raise DataError(f"{name}: not the lines of a rank's collectives") from error
    return lines


def _read_row(row: list[Any], lines: CalledLines, stacks: list[tuple[Frame, ...]]) -> None:
    if len(row) == _STACK:
        stacks.append(tuple(Frame(file=f, line=line, function=fn) for f, line, fn in row[0]))
    elif len(row) == _GROUP:
        name, title, ranks = row
        title = "" if title == "undefined" else title
        title = title or (_DEFAULT if name == "0" else "")
        group = TracedGroup(name=_name(name), title=title, ranks=tuple(ranks))
        lines.groups[group.name] = group
    else:
        name, operation, batch, agreed, peer, entered, stack = row
        call = TracedCall(
            group=_name(name), number=0, operation=operation, peer=peer, p2p=peer is not None,
            agreed=agreed, entered=entered, frames=stacks[stack],
        )  # fmt: skip
        lines.add(call, batched=bool(batch))


def _name(torchs: str) -> str:
    return f"group_name_{torchs}"


def add_lines(trace: RankTrace, lines: CalledLines) -> RankTrace:
    """A journal with the lines of its calls, and the program's names of groups."""
    groups = {
        name: msgspec.structs.replace(group, title=group.title or lines.groups[name].title)
        if name in lines.groups
        else group
        for name, group in trace.groups.items()
    }
    calls = tuple(
        msgspec.structs.replace(call, frames=lines.find_frames(call, groups[call.group]))
        for call in trace.calls
    )
    return msgspec.structs.replace(trace, groups=groups, calls=calls)


def find_mismatch(ranks: Mapping[int, CalledLines]) -> Mismatch | None:
    """The earliest calls of ranks with a process that do not fit each other."""
    matching = [*_differing_groups(ranks), *_differing_transfers(ranks)]
    return min(matching, key=lambda each: each[0])[1] if matching else None


def _differing_groups(ranks: Mapping[int, CalledLines]) -> Iterator[tuple[float, Mismatch]]:
    members: dict[str, list[int]] = defaultdict(list)
    for rank, lines in sorted(ranks.items()):
        for name in lines.groups:
            members[name].append(rank)
    for name, present in members.items():
        parted: dict[int, TracedCall] = {}
        for calls in zip_longest(*(ranks[rank].collectives(name) for rank in present)):
            here = {rank: call for rank, call in zip(present, calls, strict=True) if call}
            if _differ(here.values()):
                group = ranks[present[0]].groups[name]
                yield max(call.entered for call in here.values()), _mismatch(group, here, parted)
                break
            if not parted and len({line_of(call.frames) for call in here.values()}) > 1:
                parted = here


def _differ(calls: Iterable[TracedCall]) -> bool:
    kinds = {(call.operation, call.agreed) for call in calls}
    operations = {operation for operation, _ in kinds}
    return len(operations) > 1 or len({agreed for _, agreed in kinds if agreed}) > 1


def _mismatch(
    group: TracedGroup, here: Mapping[int, TracedCall], parted: Mapping[int, TracedCall]
) -> Mismatch:
    return Mismatch(
        group=group.title or group.name,
        group_ranks=group.ranks,
        number=next(iter(here.values())).number,
        calls=tuple(_gather(here)),
        parted=tuple(_gather(parted)),
    )


def _gather(calls: Mapping[int, TracedCall]) -> Iterator[MismatchedCall]:
    alike: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    callers = {rank: [*program_frames(call.frames)] for rank, call in calls.items()}
    common = set.intersection(*map(set, callers.values())) if callers else set()
    is_cut = any(frames and frames[-1] in common for frames in callers.values())
    for rank, call in calls.items():
        line, frames = line_of(call.frames), callers[rank]
        while is_cut and frames and frames[-1] not in common:
            frames.pop()  # beyond the last one of a longer stack
        # The outermost that parts the ranks: wrappers may lie between it and the call.
        parted = [frame for frame in frames if frame not in common]
        if parted and parted[-1] != frames[0]:
            line += f", for {parted[-1]}"
        alike[call.operation, call.agreed, line].append(rank)
    for (operation, agreed, line), ranks in alike.items():
        yield MismatchedCall(ranks=tuple(ranks), operation=operation, agreed=agreed, line=line)


def _differing_transfers(ranks: Mapping[int, CalledLines]) -> Iterator[tuple[float, Mismatch]]:
    for rank, lines in sorted(ranks.items()):
        for name, peer in sorted(lines.peers()):
            if peer not in ranks:
                continue
            sent = lines.transfers(name, peer, "send")
            taken = ranks[peer].transfers(name, rank, "recv")
            for number, (give, take) in enumerate(zip(sent, taken, strict=False), 1):
                if give.agreed != take.agreed:
                    pair = {rank: give, peer: take}
                    matching = _mismatch(lines.groups[name], pair, {})
                    matching = msgspec.structs.replace(
                        matching, group_ranks=(rank, peer), number=number
                    )
                    yield max(give.entered, take.entered), matching
                    break
