"""The Python line of each collective and transfer of a rank, for diagnosis/called_lines.py.

ASCEND_SIMULATOR_JOURNAL names the folder, as for runtime/journal.c. Lines are JSON arrays: a group,
a stack, or a call. torch_npu calls HCCL later, so methods of process groups are wrapped.
"""

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch.distributed as dist

from .faults import tensors_of
from .kernels import DEVICE

FOLDER = "ASCEND_SIMULATOR_JOURNAL"
_FRAMES = 16


class Method(NamedTuple):
    """HCCL's operation; ``agreed`` is the argument whose size all ranks give alike."""

    operation: str
    agreed: int | None = None
    transfers: bool = False


_METHODS = {
    "allreduce": Method("allreduce", 0), "allreduce_coalesced": Method("allreduce", 0),
    "broadcast": Method("broadcast", 0), "reduce": Method("reduce", 0),
    "allgather": Method("allgather", 1), "_allgather_base": Method("allgather", 1),
    "all_gather_single": Method("allgather", 1),
    "allgather_into_tensor_coalesced": Method("allgather", 1),
    "reduce_scatter": Method("reducescatter", 0),
    "_reduce_scatter_base": Method("reducescatter", 0),
    "reduce_scatter_single": Method("reducescatter", 0),
    "reduce_scatter_tensor_coalesced": Method("reducescatter", 0), "alltoall": Method("alltoall"),
    "alltoall_base": Method("alltoall"), "all_to_all_single": Method("alltoall"),
    "scatter": Method("scatter", 0), "gather": Method("gather", 1), "barrier": Method("barrier"),
    "send": Method("send", 0, transfers=True), "recv": Method("recv", 0, transfers=True),
}  # fmt: skip


def _describe(method: Method, args: tuple[Any, ...]) -> str:
    """What all ranks have to give alike, as "4 float32"; empty if that is not known."""
    if method.agreed is None:
        return ""
    own, other = (list(tensors_of([args[at]])) for at in (method.agreed, 1 - method.agreed))
    sizes = {each.numel() for each in other}
    # Lists of pieces of several sizes: what a rank gives differs from what others give.
    if len(other) > 1 and sizes != {own[0].numel()}:
        return ""
    return f"{sum(each.numel() for each in own)} {str(own[0].dtype).removeprefix('torch.')}"


class _CallFile:
    """The file of this process's rank, which is opened at its first call."""

    def __init__(self) -> None:
        self._file = -1
        self._stacks: dict[tuple[Any, ...], int] = {}
        self._groups: dict[str, bool] = {}
        self._batched = 0

    def batch(self, change: int) -> None:
        self._batched += change

    def note(self, group: Any, name: str, args: tuple[Any, ...]) -> None:
        method = _METHODS[name]
        if not self._is_of_npus(group, args):
            return
        peer = dist.get_global_rank(group, args[1]) if method.transfers else None
        agreed = _describe(method, args)
        stack = self._stack(sys._getframe(2))  # the caller of the wrapped method
        operation = "batch" if method.transfers and self._batched else ""
        self._write(
            [group.group_name, method.operation, operation, agreed, peer, time.time(), stack]
        )

    def _is_of_npus(self, group: Any, args: tuple[Any, ...]) -> bool:
        devices = {each.device.type for each in tensors_of(args[:2])}
        known = self._groups.get(group.group_name)
        if known is None:
            known = "hccl" in str(dist.get_backend_config(group))
            self._groups[group.group_name] = known
            if known:
                ranks = dist.get_process_group_ranks(group)
                self._write([group.group_name, str(group.group_desc), ranks])
        return known and devices <= {DEVICE}

    def _stack(self, frame: Any) -> int:
        frames = []
        while frame is not None and len(frames) < _FRAMES:
            frames.append((frame.f_code, frame.f_lineno))
            frame = frame.f_back
        key = tuple(frames)
        number = self._stacks.get(key)
        if number is None:
            number = self._stacks[key] = len(self._stacks)
            self._write([[(code.co_filename, line, code.co_name) for code, line in frames]])
        return number

    def _write(self, row: list[Any]) -> None:
        if self._file < 0:
            path = Path(os.environ[FOLDER], f"rank-{os.environ['RANK']}.lines")
            path.unlink(missing_ok=True)
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        os.write(self._file, json.dumps(row).encode() + b"\n")


_calls = _CallFile()


def _noting(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    def call(group: Any, *args: Any, **named: Any) -> Any:
        with contextlib.suppress(Exception):  # the job goes on without the line
            _calls.note(group, name, args)
        return method(group, *args, **named)

    return call


def _batching(change: int, method: Callable[..., Any]) -> Callable[..., Any]:
    def call(group: Any, *args: Any, **named: Any) -> Any:
        _calls.batch(change)
        return method(group, *args, **named)

    return call


def record_calls() -> None:
    """Wrap what torch.distributed calls on its process groups."""
    if not os.environ.get(FOLDER) or not dist.is_available():
        return
    kind = dist.ProcessGroup
    for name in _METHODS:
        if method := getattr(kind, name, None):
            setattr(kind, name, _noting(name, method))
    for name, change in (("_start_coalescing", 1), ("_end_coalescing", -1)):
        if method := getattr(kind, name, None):
            setattr(kind, name, _batching(change, method))
