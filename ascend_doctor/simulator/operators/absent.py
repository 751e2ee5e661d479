"""A world of which some ranks have no process: what stands for the others.

torch_npu asks the store of a group for HCCL's root information by a key that names the group, or a
pair of its ranks (ProcessGroupHCCL.cpp of 2.7.1: default_pg/0//129//npu//0:1). The stand-in of HCCL
reads there how many members are real, and answers for the others.
"""

import ctypes
import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d
from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: F401 - registers "fake"

_ROOT_INFORMATION = 4108  # bytes of HcclRootInfo
_hccl = ctypes.CDLL("libhccl.so")
_stores: list[Any] = []


def _real_ranks() -> list[int]:
    return [int(rank) for rank in os.environ["ASCEND_SIMULATOR_REAL_RANKS"].split(",")]


def _members(key: str) -> list[int]:
    """The ranks of the world in the group, or the pair of a group, that a key is about."""
    *names, last = key.split("/")
    for name in reversed(names):
        for group, known in c10d._world.pg_names.items():
            if known == name or (name == "default_pg" and known in {"0", "default_pg"}):
                places = c10d._world.pg_group_ranks[group]
                ranks = sorted(places, key=places.__getitem__)
                pair = last.split(":")
                is_pair = len(pair) > 1 and all(each.isdigit() for each in pair)
                return [ranks[int(each)] for each in pair] if is_pair else ranks
    return []


class AnsweringStore(dist.Store):  # type: ignore[misc]
    """A store that makes the root information where the rank that should is absent."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self._inner = inner
        self._rank = int(os.environ["RANK"])
        self._real = frozenset(_real_ranks())

    def _expect(self, key: str) -> bool:
        """Tell HCCL the members with a process; gives whether this rank stands for the first."""
        members = _members(key)
        real = [rank for rank in members if rank in self._real]
        if not real:
            return False
        each = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        _hccl.sim_expect_ranks(len(real), len({rank // each for rank in members}))
        stands_in = members[0] not in self._real and self._rank == real[0]
        return stands_in and not self._inner.check([key])

    def set(self, key: str, value: Any) -> None:
        if len(value) >= _ROOT_INFORMATION:
            self._expect(key)
        self._inner.set(key, value)

    def get(self, key: str) -> Any:
        if self._expect(key):
            information = ctypes.create_string_buffer(_ROOT_INFORMATION)
            _hccl.HcclGetRootInfo(information)
            self._inner.set(key, information.raw)
            return information.raw
        return self._inner.get(key)

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        for key in keys:
            if self._expect(key):
                self.get(key)
        self._inner.wait(keys, *([] if timeout is None else [timeout]))

    def has_extended_api(self) -> bool:
        return False


def _pass_on(name: str) -> Callable[..., Any]:
    return lambda store, *values: getattr(store._inner, name)(*values)


for _name in ("add", "check", "compare_set", "delete_key", "num_keys", "set_timeout"):
    setattr(AnsweringStore, _name, _pass_on(_name))


def _rendezvous(*_: Any, **__: Any) -> Iterator[tuple[Any, int, int]]:
    rank, host = int(os.environ["RANK"]), os.environ["MASTER_ADDR"]
    first = rank == _real_ranks()[0]
    inner = dist.TCPStore(host, int(os.environ["MASTER_PORT"]), None, first, wait_for_workers=False)
    _stores.append(AnsweringStore(inner))
    yield _stores[-1], rank, int(os.environ["WORLD_SIZE"])


def answer_for_absent() -> None:
    """Let groups of gloo be of this rank alone, and those of HCCL of the real ranks."""
    c10d.rendezvous = _rendezvous
    make = c10d._new_process_group_helper

    def helper(size: int, rank: int, ranks: Any, backend: Any, *args: Any, **named: Any) -> Any:
        if str(backend) == "gloo" and size > 1:
            backend = c10d.Backend("fake")
        return make(size, rank, ranks, backend, *args, **named)

    c10d._new_process_group_helper = helper
