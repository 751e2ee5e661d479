"""Calls of a rank as the simulated HCCL writes them down (simulator/runtime/journal.c)."""

import struct
from collections.abc import Iterator

from ascend_doctor.diagnosis.recorder import RankTrace, TracedCall, TracedGroup
from ascend_doctor.errors import DataError

_MAGIC = b"simulated calls\0"
_MAX_RANKS, _GROUPS, _CALLS = 1024, 256, 512
_HEAD = struct.Struct("=16siiQQ")
_GROUP = struct.Struct(f"=32s64sI{_MAX_RANKS}i")
_CALL = struct.Struct("=QQQdIIiI24s")
_CALLS_AT = _HEAD.size + _GROUPS * _GROUP.size
_BYTES = _CALLS_AT + _CALLS * _CALL.size
_BEGUN, _ENDED = 1, 2
_ABSENT = -2  # without a process, in a launch at true size
# HcclDataType of hccl_types.h
_TYPES = ("int8", "int16", "int32", "fp16", "fp32", "int64", "uint64", "uint8", "uint16", "uint32",
          "fp64", "bf16")  # fmt: skip


def parse_journal(data: bytes, rank: int, name: str) -> RankTrace:
    """What a rank called, in order. Raises DataError that names it ``name``."""
    if len(data) < _BYTES or not data.startswith(_MAGIC):
        raise DataError(f"{name}: not a journal of simulated collectives")
    _, _, world_size, made, groups = _HEAD.unpack_from(data)
    rows = list(_groups(data, groups, world_size))
    return RankTrace(
        rank=rank,
        groups={group.name: group for group in rows},
        calls=tuple(_calls(data, rows)),
        whole=made <= _CALLS,
    )


def _groups(data: bytes, count: int, world_size: int) -> Iterator[TracedGroup]:
    """Groups as torch_npu names them, as its recorder does; a second of a name by its own key."""
    names: set[str] = set()
    for at in range(min(count, _GROUPS)):
        key, name, size, *members = _GROUP.unpack_from(data, _HEAD.size + at * _GROUP.size)
        there = members[: min(size, _MAX_RANKS)]
        ranks = tuple(member for member in there if member != _ABSENT)
        # A process without RANK has no place in the job.
        known = all(0 <= rank < world_size for rank in ranks)
        group = TracedGroup(name=_text(name), ranks=ranks if known else ())
        if group.name in names:
            group = TracedGroup(name=_text(key), ranks=group.ranks)
        names.add(group.name)
        yield group


def _calls(data: bytes, groups: list[TracedGroup]) -> Iterator[TracedCall]:
    rows = [_CALL.unpack_from(data, _CALLS_AT + at * _CALL.size) for at in range(_CALLS)]
    for order, number, count, entered, group, type_, peer, state, operation in sorted(rows):
        if order and group < len(groups):
            kind = _TYPES[type_] if type_ < len(_TYPES) else "elements"
            yield TracedCall(
                group=groups[group].name,
                number=number,
                operation=_text(operation).lower(),
                peer=peer if peer >= 0 else None,
                p2p=peer >= 0,
                done=state == _ENDED,
                started=state >= _BEGUN,
                agreed=f"{count} {kind}" if count and peer < 0 else "",
                entered=entered,
            )


def _text(raw: bytes) -> str:
    return raw.partition(b"\0")[0].decode("utf-8", "replace")
