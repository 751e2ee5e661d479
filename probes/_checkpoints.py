"""Checkpoints of the tiny model as Megatron's trainers write them: ``dist_checkpointing``.

Weights and the distributed optimizer are saved in every way that the release has to shard its
state, and loaded into the same layout and, where the way allows it, into another one. What was
loaded is compared, tensor by tensor, with the reference after as many steps. Import it after
``_tiny_training``.
"""

from __future__ import annotations

import contextlib
import inspect
import multiprocessing
import os
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing.managers import SyncManager
from typing import Any

import _probe
import torch
from megatron.core import dist_checkpointing, parallel_state
from megatron.core.dist_checkpointing import ShardedTensor
from megatron.core.dist_checkpointing.strategies import filesystem_async
from megatron.core.optimizer.distrib_optimizer import DistributedOptimizer

tiny_gpt = _probe.neighbour("_tiny_gpt")

# Ways to shard the optimizer's state, by their names in 0.12.1 to 0.19.0; which of them another
# layout can read (megatron/core/optimizer/distrib_optimizer.py, sharded_state_dict). Without
# fully_sharded_bucket_space, which is deprecated in 0.12.1 and refused in 0.15.3.
TYPES = {
    "dp_reshardable": False,
    "fully_reshardable": True,
    "fully_sharded_model_space": True,
    "dp_zero_gather_scatter": False,
}
SLICED = "fully_sharded_model_space"
STATE = {"param": "weights", "exp_avg": "first", "exp_avg_sq": "second"}


def types() -> list[str]:
    """The ways that this release has; of a pipeline those that are there to leave it.

    Each takes a second, and the others depend on the data parallel ranks alone.
    """
    source = inspect.getsource(DistributedOptimizer.sharded_state_dict)
    pipeline = parallel_state.get_pipeline_model_parallel_world_size() > 1
    # From core_v0.16.0 on slices of flattened tensors are refused (dist_checkpointing/mapping.py).
    # The branch that makes them is still there, and no trainer saves by it any more
    # (megatron/training/checkpointing.py).
    slices = "flattened_range is not supported" not in inspect.getsource(ShardedTensor)
    return [
        kind
        for kind, any_layout in TYPES.items()
        if (f"'{kind}'" in source or f'"{kind}"' in source)
        and (any_layout or not pipeline)
        and (slices or kind != SLICED)
    ]


def shared_folder(folder: str) -> str | None:
    """That of rank 0, for all ranks; None where they are on several hosts."""
    folders: list[Any] = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(folders, (socket.gethostname(), folder), group=world())
    return str(folders[0][1]) if len({host for host, _ in folders}) == 1 else None


def save(run: Any, folder: str) -> dict[str, str]:
    """Write a folder for each way; what is given is how those ended that failed.

    All ways have one writer: where it fails no other way is tried, for of some only one rank
    writes, and the others would wait for it until a time-out.
    """
    failed: dict[str, str] = {}
    kinds = types()
    for number, kind in enumerate(kinds):
        path = os.path.join(folder, kind)
        state: dict[str, Any] = {}
        # Sharding asks for this first and then gathers, so that a rank that fails in it alone
        # leaves the others waiting. With MindSpeed core_r0.15.3 "AssertionError: steps" is of
        # those ranks only whose part has weights of more than one group.
        error = agree(run.optimizer.state_dict, waits=False) or agree(
            lambda state=state, kind=kind: state.update(shard(run, kind, loading=False))
        )
        if error:
            failed[kind] = error
        elif error := agree(lambda state=state, path=path: write(state, path)):
            return failed | dict.fromkeys(kinds[number:], error)
    return failed


def write(state: dict[str, Any], path: str) -> None:
    if torch.distributed.get_rank() == 0:
        shutil.rmtree(path, ignore_errors=True)
        os.makedirs(path)
    torch.distributed.barrier()
    names = vars(filesystem_async)
    if multiprocessing.parent_process() and names.get("_results_queue", "") is None:
        # As 0.12.1 does: in a forked rank a spawned one imports torch, in seconds.
        manager = SyncManager(ctx=multiprocessing.get_context("fork"))
        manager.start(_probe.die_with_parent)  # or torchrun waits for its descriptors
        names["_results_queue"] = manager.Queue()
    with without_main():
        dist_checkpointing.save(state, path)


@contextlib.contextmanager
def without_main() -> Iterator[None]:
    """Writers are processes of multiprocessing, which import the script that runs, if it is known.

    A probe does not find its neighbours then, and they have no need of it.
    """
    main = sys.modules["__main__"]
    path = vars(main).pop("__file__", None)
    try:
        yield
    finally:
        if path is not None:
            vars(main)["__file__"] = path


def shard(run: Any, kind: str, *, loading: bool) -> dict[str, Any]:
    weights = run.bare.sharded_state_dict()
    parameters = inspect.signature(DistributedOptimizer.sharded_state_dict).parameters
    how = (
        {"metadata": {"distrib_optim_sharding_type": kind}}
        if "metadata" in parameters
        else {"sharding_type": kind}
    )
    optimizer = run.optimizer.sharded_state_dict(weights, is_loading=loading, **how)
    return {
        "model": weights,
        "optimizer": optimizer,
        "opt_param_scheduler": run.scheduler.state_dict(),
    }


def load(run: Any, folder: str, kind: str, steps: int) -> dict[str, Any]:
    """Load into a model that holds something else; by how much tensors are off, or the error."""
    forget(run)
    state: dict[str, Any] = {}
    path = os.path.join(folder, kind)
    error = (
        agree(lambda: state.update(shard(run, kind, loading=True)), waits=False)
        or agree(lambda: state.update(dist_checkpointing.load(state, path)), waits=False)
        or agree(lambda: take(run, state), waits=False)
    )
    return {"error": error} if error else {"off": compare(run, steps)}


def take(run: Any, state: dict[str, Any]) -> None:
    run.bare.load_state_dict(state["model"])
    run.optimizer.load_state_dict(state["optimizer"])
    run.schedule(state["opt_param_scheduler"])


@torch.no_grad()
def agree(action: Callable[[], Any], *, waits: bool = True) -> str:
    """How an action that all ranks do failed first on any of them; "" where it did not.

    Shards of a float32 model are views of its weights, which autograd guards. ``waits``: ranks
    wait for each other in it, and go on to train. Where not all fail alike, the others waited until
    their time-out, and the groups cannot be used any more: RuntimeError, with what was first.
    """
    error = ""
    try:
        action()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as raised:  # noqa: BLE001 - torch's CheckpointException is no Exception
        error = _probe.innermost(raised)[:600]
    ends: list[Any] = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(ends, (time.time(), error), group=world())
    errors = [text for _, text in sorted(ends) if text]
    alike = len({error.partition(":")[0] for error in errors}) <= 1
    if waits and errors and not (alike and len(errors) == len(ends)):
        raise RuntimeError(errors[0])
    return errors[0] if errors else ""


_groups: dict[int, Any] = {}


def world() -> Any:
    """A gloo group of all ranks: objects over a device's own group are another probe's matter."""
    key = id(torch.distributed.group.WORLD)
    if key not in _groups:
        _groups[key] = torch.distributed.new_group(backend="gloo")
    return _groups[key]


def share(compute: Callable[[], Any]) -> Any:
    """What the first rank computes, on all ranks: each would compute the same."""
    box = [compute() if torch.distributed.get_rank() == 0 else None]
    torch.distributed.broadcast_object_list(box, 0, group=world())
    return box[0]


def meet() -> None:
    torch.distributed.barrier(group=world())


@torch.no_grad()
def forget(run: Any) -> None:
    """So that a load that does nothing shows."""
    for weight in run.bare.parameters():
        # Any number that no weight is drawn as.
        weight.fill_(-7.0)
    for _, tensors, _, _ in state_of(run):
        for key in STATE:
            if key in tensors:
                tensors[key].fill_(-7.0)


def state_of(run: Any) -> Iterator[tuple[Any, dict[str, Any], int, int]]:
    """Of each weight that this rank optimizes: it, its state, and the part of it that is here."""
    for optimizer in run.optimizers():
        # Looking for the state of a weight that has none makes one.
        for weight in optimizer.model_param_group_index_map if optimizer.optimizer.state else ():
            part = optimizer._get_model_param_range_map(weight)["param"]  # noqa: SLF001
            tensors = optimizer._get_main_param_and_optimizer_states(weight)  # noqa: SLF001
            yield weight, tensors, part.start, part.end


def compare(run: Any, steps: int) -> dict[str, float]:
    """The relative error of the worst tensor of each kind, against the reference."""
    expected = share(lambda: run.against.state(steps))
    names = {weight: name for name, weight in run.bare.named_parameters()}
    worst = dict.fromkeys(("weights", *STATE.values()), 0.0)

    def whole(kind: str, name: str, weight: Any) -> Any:
        return tiny_gpt.take_share(expected[kind], name, weight, run.config, run.kind)

    for weight, name in names.items():
        off = error_of(weight, whole("weights", name, weight))
        worst["weights"] = max(worst["weights"], off)
    seen = 0
    for weight, tensors, first, last in state_of(run):
        for key, kind in STATE.items():
            part = whole(kind, names[weight], weight).reshape(-1)[first:last]
            worst[kind] = max(worst[kind], error_of(tensors[key], part))
            seen += 1
    return {**worst, "tensors": seen + len(names)}


def error_of(got: Any, expected: Any) -> float:
    """Relative; a part that is nothing but zeros must be so."""
    size = float(expected.norm())
    off = float((got.detach().cpu().double().reshape(-1) - expected.detach().reshape(-1)).norm())
    return off / size if size else off
