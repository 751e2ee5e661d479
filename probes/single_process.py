"""Makes Megatron's groups in one process that torchrun did not start.

Megatron needs a default group even for one device. Tried are, in this order,
``initialize_model_parallel()`` without one, then ``init_process_group`` without an address, as
outside torchrun (their errors are recorded as ``without_group`` and ``without_address``), then the
form that works: an address, rank 0 and a world of 1. There the groups have one member, and an
all-reduce keeps its value.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any

import _megatron
import _probe
from _probe import BACKENDS, Probe
from port import free

MANIFEST = {
    "order": 170,
    "level": 2,
    "seconds": 300,
    "seconds_cpu": 90,
    "needs": ["device", "mindspeed-patches"],
    "forked": True,
    "does": "Megatron's groups without torchrun: two calls that fail and the one that works",
    "on_cpu": "with megatron-core",
}

# With these init_process_group would find what it lacks.
OF_TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


def body(probe: Probe) -> None:
    """Megatron's groups in a process without torchrun."""
    torch = _megatron.begin(probe)
    import torch.distributed as dist
    from megatron.core import parallel_state

    for name in OF_TORCHRUN:
        os.environ.pop(name, None)
    with probe.stage("without a group"):
        probe.measure("without_group", error_of(parallel_state.initialize_model_parallel))
    with probe.stage("without an address"):
        backend = BACKENDS[probe.device]
        probe.measure("without_address", error_of(dist.init_process_group, backend))
        with contextlib.suppress(ValueError, AssertionError):
            dist.destroy_process_group()
    with probe.stage("with an address"):
        dist.init_process_group(
            backend, init_method=f"tcp://127.0.0.1:{free()[0]}", rank=0, world_size=1
        )
    with probe.stage("groups"):
        alone(probe, torch, dist, parallel_state)
    with probe.stage("take down"):
        parallel_state.destroy_model_parallel()
        dist.destroy_process_group()


def alone(probe: Probe, torch: Any, dist: Any, parallel_state: Any) -> None:
    """Groups of one member, and a sum over one of them."""
    parallel_state.initialize_model_parallel()
    sizes = {
        "tensor": parallel_state.get_tensor_model_parallel_world_size(),
        "pipeline": parallel_state.get_pipeline_model_parallel_world_size(),
        "context": parallel_state.get_context_parallel_world_size(),
        "expert": parallel_state.get_expert_model_parallel_world_size(),
        "data": parallel_state.get_data_parallel_world_size(),
    }
    for name, size in sizes.items():
        probe.expect(f"{name} parallel size of one process", size, 1)
    group = parallel_state.get_data_parallel_group_gloo()
    probe.expect("members of the Gloo group", dist.get_process_group_ranks(group), [0])
    tensor = torch.full((1,), 2.0 if probe.tampers("groups") else 1.0, device=probe.torch_device())
    dist.all_reduce(tensor, group=parallel_state.get_data_parallel_group())
    probe.expect("sum over one process", tensor.item(), 1.0)


def error_of(call: Any, *arguments: Any) -> str:
    """The error of a call, "" where there is none."""
    try:
        call(*arguments)
    except (AssertionError, RuntimeError, ValueError) as error:
        return _probe.innermost(error)
    return ""


if __name__ == "__main__":
    _probe.main(body, name="single-process")
