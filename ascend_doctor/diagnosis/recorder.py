"""Dumps of the flight recorder, torch_npu's and PyTorch's: what a rank called, and what ended.

Formats: torch_npu/csrc/distributed/TraceUtils.h of Ascend/pytorch (dump, dump_json);
torch/distributed/flight_recorder/components/{loader,types}.py. A pickle is a program to whoever
loads it: here it may build plain values and nothing else.
"""

import functools
import io
import json
import pickle
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from ascend_doctor.diagnosis.stacks import Frame
from ascend_doctor.errors import DataError
from ascend_doctor.machine.syntax import describe_json

T = TypeVar("T")

# Enough to see a rank's routine; what has not ended is always looked at.
HISTORY = 128
_PENDING = 512
_FRAMES = 40
_LISTS = frozenset({"build_intlist", "build_doublelist", "build_boollist"})
_P2P = re.compile(r"(?P<op>send|recv) (?P<own>\d+)(?:->|<-)(?P<peer>\d+)")
# The recorder's name of a batch: _coalescing_manager in torch and torch_npu's distributed_c10d.py.
_BATCH = "coalesced"
_BATCHES = frozenset({"batch_isend_irecv", "_batch_isend_irecv"})
# megatron/core/pipeline_parallel/p2p_communication.py: what is sent to and received from the stages
# before and behind, in the order of the group.
EXCHANGES: dict[str, frozenset[tuple[str, int]]] = {
    "recv_forward": frozenset({("recv", -1)}),
    "recv_backward": frozenset({("recv", 1)}),
    "send_forward": frozenset({("send", 1)}),
    "send_backward": frozenset({("send", -1)}),
    "send_forward_recv_backward": frozenset({("send", 1), ("recv", 1)}),
    "send_backward_recv_forward": frozenset({("send", -1), ("recv", -1)}),
    "send_forward_recv_forward": frozenset({("send", 1), ("recv", -1)}),
    "send_backward_recv_backward": frozenset({("send", -1), ("recv", 1)}),
    "send_forward_backward_recv_forward_backward": frozenset(
        {("send", 1), ("send", -1), ("recv", 1), ("recv", -1)}
    ),
}
# send() and recv() of torch.distributed call these, whose frame is the innermost.
_OPS = {"isend": "send", "irecv": "recv"}


class TracedGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A process group as a rank knows it; ``ranks`` are those of the job, in the group's order."""

    name: str
    title: str = ""
    ranks: tuple[int, ...]


class TracedCall(msgspec.Struct, frozen=True, kw_only=True):
    """One operation that a rank put into its queue.

    ``number`` counts the operations of the group, for sends and receives those between collectives.
    ``operation`` is empty if the dump does not name it; for a batch of sends and receives it is
    Megatron's function (a key of EXCHANGES) or "batch_isend_irecv". ``peer`` is a rank of the job,
    None for a collective or if unknown. ``frames`` have the innermost first. ``agreed`` is what all
    members have to pass alike, ``entered`` the time in seconds, if known.
    """

    group: str
    number: int
    operation: str = ""
    peer: int | None = None
    p2p: bool = False
    done: bool = False
    started: bool = False
    sizes: str = ""
    agreed: str = ""
    entered: float = 0.0
    frames: tuple[Frame, ...] = ()


class RankTrace(msgspec.Struct, frozen=True, kw_only=True):
    """The dump of one rank: its groups by name, its calls in order; ``whole`` if none is lost."""

    rank: int
    groups: dict[str, TracedGroup]
    calls: tuple[TracedCall, ...]
    whole: bool = True


class _PlainUnpickler(pickle.Unpickler):
    """Builds plain values; typed lists of torch's pickler become lists."""

    def find_class(self, module: str, name: str) -> Callable[[Any], Any]:
        if module == "torch.jit._pickle" and name in _LISTS:
            return list
        raise pickle.UnpicklingError(f"it would load {module}.{name}")

    def persistent_load(self, _: object) -> None:
        raise pickle.UnpicklingError("it would load a storage")


def is_dump(head: bytes) -> bool:
    # PROTO and its version; torch's pickler writes 2 (torch/csrc/jit/serialization/pickler.cpp).
    if head.startswith((b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")):
        return b"pg_config" in head or b"entries" in head or b"version" in head
    return (head.lstrip().startswith(b"{") and b'"pg_config"' in head) or b'"entries"' in head[:64]


def parse_dump(data: bytes, rank: int, name: str) -> RankTrace:
    """The dump of a rank. Raises DataError that names it ``name``."""
    return _read(data, name, lambda raw: _trace(raw, rank))


def dump_as_json(data: bytes, name: str) -> str:
    """What is read of a dump, as torch_npu's dump_json writes it. Raises DataError."""
    return _read(data, name, lambda raw: json.dumps(raw | {"entries": _latest(raw)}, indent=1))


def _read(data: bytes, name: str, use: Callable[[dict[str, Any]], T]) -> T:
    try:
        pickled = data.startswith(b"\x80")
        return use(_PlainUnpickler(io.BytesIO(data)).load() if pickled else json.loads(data))
    except (pickle.UnpicklingError, ValueError, EOFError, MemoryError, RecursionError) as error:
        raise DataError(
            f"{name}: no dump of a flight recorder: {describe_json(error, data)}"
        ) from error
    except (KeyError, TypeError, AttributeError, IndexError, OverflowError) as error:
        raise DataError(f"{name}: no dump of a flight recorder that we know") from error


def _trace(raw: Mapping[str, Any], rank: int) -> RankTrace:
    groups = {}
    for key, value in raw.get("pg_config", {}).items():
        ranks = value["ranks"]
        title = str(value.get("desc", ""))
        groups[str(key)] = TracedGroup(
            name=str(key),
            title="" if title == "undefined" else title,
            ranks=_numbers(ranks if isinstance(ranks, str) else json.dumps(ranks)),
        )
    entries = raw.get("entries") or []
    frames: dict[tuple[int, ...], tuple[Frame, ...]] = {}
    single: dict[int, Frame] = {}
    sent: dict[str, int] = {}
    calls = [_call(entry, groups, frames, single, sent) for entry in _latest(raw)]
    return RankTrace(
        rank=rank,
        groups=groups,
        calls=tuple(calls),
        whole=not entries or (len(entries) <= HISTORY and int(entries[0].get("record_id", 0)) == 0),
    )


def _latest(raw: Mapping[str, Any]) -> list[Any]:
    entries = raw.get("entries") or []
    first = max(0, len(entries) - HISTORY)
    pending = [entry for entry in entries[:first] if entry["state"] != "completed"][:_PENDING]
    return [*pending, *entries[first:]]


@functools.lru_cache(maxsize=4096)
def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in json.loads(text))


def _call(
    entry: Mapping[str, Any],
    groups: Mapping[str, TracedGroup],
    stacks: dict[tuple[int, ...], tuple[Frame, ...]],
    single: dict[int, Frame],
    sent: dict[str, int],
) -> TracedCall:
    group = str(entry["process_group"][0])
    raw = entry.get("frames") or []
    key = tuple(map(id, raw))  # frames are shared in a dump, which outlives this
    if key not in stacks:
        stacks[key] = _frames(raw, single)
    frames = stacks[key]
    name = str(entry.get("profiling_name", "")).partition(":")[2]
    number = int(entry["p2p_seq_id"])
    counted = number > sent.get(group, 0)
    batched = any(frame.function in _BATCHES for frame in frames) if frames else counted
    is_batch = name == _BATCH and batched
    sent[group] = number
    p2p = bool(entry.get("is_p2p", False)) or is_batch
    match = _P2P.match(name)
    operation, peer = name, None
    if match:
        operation = match["op"]
        ranks = groups[group].ranks if group in groups else ()
        position = int(match["peer"])
        peer = ranks[position] if position < len(ranks) else None
    elif is_batch:
        functions = (frame.function.rpartition(".")[2] for frame in frames)
        operation = next((name for name in functions if name in EXCHANGES), "batch_isend_irecv")
    elif not name and frames:
        operation = _OPS.get(frames[0].function, frames[0].function)
    state = entry["state"]
    return TracedCall(
        group=group,
        number=number if p2p else int(entry["collective_seq_id"]),
        operation=operation,
        peer=peer,
        p2p=p2p,
        done=state == "completed",
        started=state == "started",
        sizes=str(entry.get("input_sizes", "")),
        frames=frames,
    )


def _frames(raw: Sequence[Mapping[str, Any]], single: dict[int, Frame]) -> tuple[Frame, ...]:
    for frame in raw[:_FRAMES]:
        if id(frame) not in single:
            single[id(frame)] = Frame(
                file=str(frame["filename"]), line=int(frame["line"]), function=str(frame["name"])
            )
    return tuple(single[id(frame)] for frame in raw[:_FRAMES])
