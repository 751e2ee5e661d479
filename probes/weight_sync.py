"""Sends weights from one rank to all others the way asynchronous trainers do, beside any group.

Rank 0 is the actor, the others are rollouts. They meet at a store of their own, once with either
side first, exchange an object, add up, and send weights to receivers that hold something else
before, then other weights to the same receivers, as after the next training step. On NPUs with
vllm-ascend it goes through its StatelessProcessGroup and PyHcclCommunicator, which disables itself
without an error where it finds no HCCL, and then sends nothing. Else the same is built of torch's
stores and the backend of this device.
"""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import time
from datetime import timedelta
from typing import Any

import _probe
from _probe import GROUP_SECONDS, HCCL_LIMITS, Probe

MANIFEST = {
    "order": 250,
    "level": 3,
    "seconds": 300,
    "seconds_cpu": 90,
    "needs": ["allreduce"],
    "torchrun": True,
    "does": (
        "weights from rank 0 to all others beside any process group, twice, other ones each time, "
        "with either side first: vllm-ascend's group and communicator where it is installed on an "
        "NPU, else torch's stores and backend"
    ),
    "on_cpu": "over gloo",
}

LATE_SECONDS = 0.5
OBJECT = {"k": 1}
WEIGHTS = {"bfloat16": 1 << 20, "uint8": 1 << 16}
# Prime, so that rows differ; whole numbers up to 256 are exact in bfloat16.
PERIOD = 251
# No weight has it: they go from 1 to 252.
UNSENT = 255


def body(probe: Probe) -> None:
    """Weights from one rank to all others, beside any process group."""
    if probe.world_size == 1:
        probe.skip("weights are sent from one rank to another, and there is one")
    torch = probe.torch()
    import torch.distributed as dist

    for name, value in HCCL_LIMITS.items() if probe.device == "npu" else ():
        os.environ.setdefault(name, value)
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    limit = timedelta(seconds=GROUP_SECONDS[probe.device])
    launcher = dist.TCPStore(address, port, is_master=False, timeout=limit)
    meeting = dist.PrefixStore("weight-sync", launcher)
    with probe.stage("settings"):
        settings(probe, torch, meeting)
    kind = Vllm if probe.device == "npu" and importlib.util.find_spec("vllm_ascend") else Plain
    probe.measure("through", kind.__name__.lower())
    for first in ("rollouts", "actor"):
        with probe.stage(f"meet, {first} first"):
            side = kind(probe, dist, listener(probe, meeting, first), limit)
        with probe.stage(f"send, {first} first"):
            send(probe, torch, side)
        with probe.stage(f"part, {first} first"):
            part(probe, meeting, first)


def settings(probe: Probe, torch: Any, store: Any) -> None:
    """Whether all ranks would take the same side of "is this an NPU?"."""
    npu = getattr(torch, "npu", None)
    mine = {"device": probe.device, "npu": bool(npu is not None and npu.is_available())}
    if probe.tampers("settings"):
        mine["npu"] = not mine["npu"]
    store.set(f"settings/{probe.rank}", json.dumps(mine))
    # An NPU may be there and not be asked for, on all ranks or on none.
    expected = {**mine, "npu": True} if probe.device == "npu" else mine
    for rank in range(probe.world_size):
        theirs = json.loads(store.get(f"settings/{rank}"))
        probe.expect(
            f"device that rank {rank} is set to, and whether it has NPUs", theirs, expected
        )


def listener(probe: Probe, store: Any, first: str) -> tuple[str, int, Any]:
    """Where the side group meets: address, port, and on the actor the socket that holds it.

    The socket is bound at once, so that nobody else gets the port; it listens when it is its turn.
    """
    address = os.environ["MASTER_ADDR"]
    if probe.rank:
        port = int(store.get(f"port/{first}"))
        store.add(f"come/{first}", 1)
        if first == "actor":
            store.wait([f"up/{first}"])
        return address, port, None
    bound = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    bound.bind(("", 0))
    store.set(f"port/{first}", str(bound.getsockname()[1]))
    if first == "rollouts":
        while store.add(f"come/{first}", 0) < probe.world_size - 1:
            time.sleep(0.01)
        time.sleep(LATE_SECONDS)
    bound.listen()
    store.set(f"up/{first}", "")
    return address, bound.getsockname()[1], bound


class Plain:
    """Torch's store, and its backend for this device without a default group."""

    def __init__(
        self, probe: Probe, dist: Any, where: tuple[str, int, Any], limit: timedelta
    ) -> None:
        address, port, bound = where
        taken = {} if bound is None else {"master_listen_fd": bound.detach()}
        # The store of libuv takes no listening socket up to torch 2.9; vllm's
        # StatelessProcessGroup, whose way this is, does without libuv, too.
        self._store = dist.TCPStore(
            address, port, probe.world_size, not probe.rank, timeout=limit, use_libuv=False, **taken
        )
        self._rank, self._dist = probe.rank, dist
        self._group = group(probe, dist.PrefixStore("group", self._store), limit)
        self.disabled = False

    def object(self, value: Any) -> Any:
        if self._rank == 0:
            self._store.set("object", json.dumps(value))
        return json.loads(self._store.get("object"))

    def add_up(self, tensor: Any) -> Any:
        self._group.allreduce(tensor, self._dist.ReduceOp.SUM).wait()
        return tensor

    def broadcast(self, tensor: Any) -> None:
        self._group.broadcast(tensor, 0).wait()


def group(probe: Probe, store: Any, limit: timedelta) -> Any:
    """The backend of this device over a store."""
    import torch.distributed as dist

    if probe.device == "cpu":
        return dist.ProcessGroupGloo(store, probe.rank, probe.world_size, limit)
    if probe.device == "cuda":
        return dist.ProcessGroupNCCL(store, probe.rank, probe.world_size, limit)
    from torch_npu._C._distributed_c10d import ProcessGroupHCCL

    options = ProcessGroupHCCL.Options()
    options._timeout = limit  # noqa: SLF001 - as torch_npu's own registration sets it
    options.global_ranks_in_group = list(range(probe.world_size))
    options.group_id = "weight-sync"
    return ProcessGroupHCCL(store, probe.rank, probe.world_size, options)


class Vllm:
    """What vllm-ascend has for it."""

    def __init__(self, probe: Probe, _: Any, where: tuple[str, int, Any], limit: timedelta) -> None:
        from vllm.distributed.utils import StatelessProcessGroup
        from vllm_ascend.distributed.device_communicators.pyhccl import PyHcclCommunicator

        address, port, bound = where
        if bound is not None:
            # It binds the port itself.
            bound.close()
        self._group = StatelessProcessGroup.create(
            address,
            port,
            probe.rank,
            probe.world_size,
            store_timeout=int(limit.total_seconds()),
        )
        self._communicator = PyHcclCommunicator(self._group, device=probe.torch_device())
        self.disabled = bool(self._communicator.disabled)

    def object(self, value: Any) -> Any:
        return self._group.broadcast_obj(value, src=0)

    def add_up(self, tensor: Any) -> Any:
        total = self._communicator.all_reduce(tensor)
        return tensor if total is None else total

    def broadcast(self, tensor: Any) -> None:
        self._communicator.broadcast(tensor, src=0)


def send(probe: Probe, torch: Any, side: Any) -> None:
    """An object, a sum, and weights into receivers that hold something else before."""
    actor = probe.rank == 0
    probe.expect("object of the actor", side.object(OBJECT if actor else None), OBJECT)
    probe.expect("communicator", "disabled" if side.disabled else "enabled", "enabled")
    mine = torch.full((1,), float(probe.rank + 1), device=probe.torch_device())
    total = side.add_up(mine)
    probe.synchronise(torch)
    probe.expect("sum of rank + 1", total.item(), float(sum(range(1, probe.world_size + 1))))
    for name, size in WEIGHTS.items():
        if name in _probe.lacking(probe.device):
            continue
        # Before the first time receivers hold what nobody sends, before the second old weights.
        held = torch.full((size,), UNSENT).to(getattr(torch, name)).to(probe.torch_device())
        for turn in ("first", "second"):
            expected = version(torch, name, size, 1 if turn == "first" else 2)
            if actor:
                sent = expected.clone()
                if probe.tampers(probe.stage_name):
                    sent[-1] = UNSENT
                held.copy_(sent.to(probe.torch_device()))
            side.broadcast(held)
            probe.synchronise(torch)
            differ = int((held.cpu() != expected).sum())
            probe.expect(f"{name} weights that differ the {turn} time, of {size}", differ, 0)


def version(torch: Any, name: str, size: int, number: int) -> Any:
    """Weights that tell places and versions apart; whole numbers, exact in each dtype."""
    return (torch.arange(size) % PERIOD + number).to(getattr(torch, name))


def part(probe: Probe, store: Any, first: str) -> None:
    """The store of the side group ends with the actor, so it leaves last."""
    store.add(f"done/{first}", 1)
    while probe.rank == 0 and store.add(f"done/{first}", 0) < probe.world_size:
        time.sleep(0.01)


if __name__ == "__main__":
    _probe.main(body, name="weight-sync")
