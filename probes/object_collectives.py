"""Gathers and broadcasts Python objects over Gloo, then over the backend of the device.

Objects of unequal sizes are moved by all_gather_object, gather_object and broadcast_object_list
over a Gloo group, which is how metrics should travel, and, where there is a megatron.core, over its
Gloo data parallel group. Over the backend of the device the same is done by child processes,
because it may never end: torch moves the pickled bytes through tensors on the *current* device,
which is 0 on all ranks that never called set_device
(https://github.com/pytorch/pytorch/issues/75619). Recorded: ``peers`` by name (``set``, and on
accelerators ``unset``, where no device is set), with the last ``step``, ``device``, the current
device, and ``error``; and that no training can start (``blocks``) where megatron.core sets up its
optimizer by such a collective.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import _cases
import _megatron
import _probe
import _spares
from _probe import Probe

MANIFEST = {
    "order": 230,
    "level": 3,
    "seconds": 600,
    "seconds_cpu": 120,
    "needs": ["allreduce", "mindspeed-patches"],
    "torchrun": True,
    "does": (
        "Python objects of unequal lengths over Gloo, over Megatron's Gloo group, and in child "
        "processes over the group of the device, with and without set_device"
    ),
    "on_cpu": "over gloo",
}

PEER = "--peer"
# For each step of a child but its imports. HCCL reports a failed link after 140 s at the earliest.
STEP_SECONDS = _probe.patient(npu=150.0, cuda=60.0, cpu=8.0)
GATHERED, BROADCAST, COLLECTED = "all_gather_object", "broadcast_object_list", "gather_object"


def body(probe: Probe) -> None:
    """Python objects over a Gloo group, and over the group of the device."""
    torch = probe.torch()
    dist = probe.join()
    with probe.stage("gloo"):
        start = time.monotonic()
        group = dist.new_group(backend="gloo")
        compare(probe, "a Gloo group", move(dist, group, probe))
        probe.measure("gloo_s", time.monotonic() - start)
    if _megatron.find_installed():
        metrics(probe, torch, dist)
    peers: dict[str, Any] = {}
    for name in ("set", "unset") if probe.device != "cpu" else ("set",):
        with probe.stage(f"peers {name}"):
            peers[name] = peer(probe, name, f"object-collectives/{name}")
            if name == "set" and spoilt(dist, group, peers[name]):
                peers[name] = peer(probe, name, f"object-collectives/{name} again")
            probe.measure("peers", peers)
            got = peers[name].pop("objects", None)
        if got is not None:
            compare(probe, f"the group of the device, device {name}", got)
        # Some waited longer than others, and HCCL waits for nobody long.
        with probe.stage(f"after peers {name}"):
            dist.barrier(group=group)
    dist.destroy_process_group(group)
    if peers["set"].get("error") and _megatron.find_installed() and optimizer_gathers():
        probe.measure(
            "blocks",
            f"objects do not travel over the group of {probe.device}, and the optimizer of this "
            "megatron.core gathers its parameter groups so",
        )


def optimizer_gathers() -> bool:
    """Whether setting up an optimizer needs all_gather_object over all ranks, as from 0.14.0 on."""
    import megatron.core.optimizer

    return "all_gather_object(" in Path(megatron.core.optimizer.__file__).read_text("utf-8")


def describe(rank: int) -> dict[str, Any]:
    """An object of a length that no other rank has."""
    # Torch pads pickled objects to the longest; equal lengths would hide a mistake in it.
    return {"r": rank, "s": "x" * (17 * rank)}


def move(dist: Any, group: Any, probe: Any) -> dict[str, Any]:
    """What the three object collectives gave this rank; the last rank broadcasts."""
    rank, size = probe.rank, probe.world_size
    mine = describe(rank)
    if probe.tampers("gloo"):
        mine["r"] = -1
    gathered: list[Any] = [None] * size
    dist.all_gather_object(gathered, mine, group=group)
    objects = [describe(rank) if rank == size - 1 else None]
    dist.broadcast_object_list(objects, src=size - 1, group=group)
    collected: list[Any] | None = [None] * size if rank == 0 else None
    dist.gather_object(mine, collected, dst=0, group=group)
    return {GATHERED: gathered, BROADCAST: objects, COLLECTED: collected}


def compare(probe: Probe, where: str, got: dict[str, Any]) -> None:
    everyone = [describe(rank) for rank in range(probe.world_size)]
    expected = {GATHERED: everyone, BROADCAST: everyone[-1:], COLLECTED: everyone}
    for name, objects in got.items():
        if objects is not None:
            probe.expect(f"{name} over {where}", objects, expected[name])


def metrics(probe: Probe, torch: Any, dist: Any) -> None:
    """Megatron's Gloo data parallel group, the one that metrics should use."""
    _megatron.load(probe, torch)
    from megatron.core import parallel_state

    with probe.stage("Megatron's Gloo group"), _megatron.forgetting(parallel_state):
        parallel_state.initialize_model_parallel()
        group = parallel_state.get_data_parallel_group_gloo()
        probe.measure("metrics_backend", str(dist.get_backend(group)))
        gathered: list[Any] = [None] * probe.world_size
        dist.all_gather_object(gathered, describe(probe.rank), group=group)
        compare(probe, "Megatron's Gloo group", {GATHERED: gathered})


def spoilt(dist: Any, group: Any, outcome: dict[str, Any]) -> bool:
    """Whether spare processes failed on any rank; from here on all ranks do without them."""
    if not _spares.waiting():
        return False
    failed: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(failed, "error" in outcome, group=group)
    if any(failed):
        _spares.end()
    return any(failed)


def peer(probe: Probe, name: str, prefix: str) -> dict[str, Any]:
    """What a child of this rank came to, with those of the other ranks, who meet under a prefix."""
    limit = STEP_SECONDS[probe.device]
    outcome: dict[str, Any] = {"step": "import"}
    child = _cases.Child(__file__, PEER, probe.device, name, str(limit), prefix)
    seconds = _cases.IMPORT_SECONDS
    try:
        while not {"seconds", "error"} & outcome.keys():
            # So that a hang is told of before the probe's own deadline.
            outcome.update(child.next(max(min(seconds, probe.left() - 10), 0)))
            seconds = limit
    finally:
        child.close()
    return outcome


class Peer:
    """What ``move`` wants to know, of a child."""

    def __init__(self) -> None:
        self.rank = int(os.environ.get("RANK", "0"))
        self.local_rank = int(os.environ.get("LOCAL_RANK", "0"))
        self.world_size = int(os.environ.get("WORLD_SIZE", "1"))

    def tampers(self, _: str) -> bool:
        return False


def answer() -> NoReturn:
    """Be such a child: move objects over the backend of the device, and say how far it came."""
    device, writer, name, limit, prefix = sys.argv[2:7]
    sys.argv[1:] = []
    _probe.leave_folder()
    _probe.die_with_parent()

    def say(**fields: Any) -> None:
        _cases.say(int(writer), fields)

    try:
        work(Peer(), device, name, float(limit), prefix, say)
    except BaseException as error:  # noqa: BLE001 - SystemExit of a library is a result, too
        say(error=_probe.innermost(error))
    # The exit handlers of a broken accelerator may hang.
    os._exit(0)


def work(
    me: Peer, device: str, name: str, limit: float, prefix: str, say: Callable[..., None]
) -> None:
    from datetime import timedelta

    fault = _probe.fault_of(me.rank)
    torch = _probe.import_torch(device)
    import torch.distributed as dist

    accelerator = None if device == "cpu" else getattr(torch, device)
    if accelerator is not None:
        if name == "set":
            accelerator.set_device(me.local_rank)
        say(device=accelerator.current_device())
    say(step="rendezvous")
    dist.init_process_group(
        _probe.BACKENDS[device],
        store=dist.PrefixStore(prefix, _probe.store_of(dist)),
        rank=me.rank,
        world_size=me.world_size,
        timeout=timedelta(seconds=limit + 60),  # the parent is to say first that it hangs
    )
    say(step="objects")
    _probe.fail_on_purpose(fault, f"inside {name}")
    start = time.monotonic()
    objects = move(dist, None, me)
    if accelerator is not None:
        accelerator.synchronize()
    say(objects=objects, seconds=time.monotonic() - start, step="done")


if __name__ == "__main__":
    if sys.argv[1:2] == [PEER]:
        answer()
    _probe.main(body, name="object-collectives")
