"""Collectives of tensor parallelism with their gradients, over a backend that has few.

A sequence is divided along dimension 0, as Megatron divides it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch.utils import checkpoint as recompute


class CudaRNGStatesTracker:
    """Megatron derives one for ``--te-rng-tracker``."""


@contextlib.contextmanager
def activation_recompute_forward(**_: Any) -> Iterator[None]:
    """Where FP8's scales would be kept."""
    yield


def checkpoint(function: Any, *arguments: Any, **options: Any) -> Any:
    """Recompute in the backward pass; drop what is for CUDA."""
    for name in ("distribute_saved_activations", "get_rng_state_tracker", "tp_group"):
        options.pop(name, None)
    return recompute.checkpoint(function, *arguments, use_reentrant=False, **options)


def _sum(tensor: torch.Tensor, group: Any) -> torch.Tensor:
    total = tensor.contiguous().clone()
    dist.all_reduce(total, group=group)
    return total


def _gather(tensor: torch.Tensor, group: Any) -> torch.Tensor:
    parts = [torch.empty_like(tensor) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, tensor.contiguous(), group=group)
    return torch.cat(parts)


def _sum_and_divide(tensor: torch.Tensor, group: Any) -> torch.Tensor:
    parts = _sum(tensor, group).chunk(dist.get_world_size(group))
    return parts[dist.get_rank(group)].contiguous()


class _Collective(torch.autograd.Function):
    """A collective forward; backward, the one that is its gradient."""

    @staticmethod
    def forward(context: Any, tensor: Any, group: Any, forward: Any, backward: Any) -> Any:
        context.group, context.gradient = group, backward
        return forward(tensor, group)

    @staticmethod
    def backward(context: Any, gradient: Any) -> Any:
        return context.gradient(gradient, context.group), None, None, None


def _keep(tensor: torch.Tensor, _: Any) -> torch.Tensor:
    return tensor.view_as(tensor)


def enter(tensor: torch.Tensor, group: Any, sequence_parallel: bool) -> torch.Tensor:
    """The whole input of a layer with divided outputs."""
    if sequence_parallel:
        return _Collective.apply(tensor, group, _gather, _sum_and_divide)
    return _Collective.apply(tensor, group, _keep, _sum)


def leave(tensor: torch.Tensor, group: Any, sequence_parallel: bool) -> torch.Tensor:
    """The sum over ranks, for a layer with divided inputs."""
    if sequence_parallel:
        return _Collective.apply(tensor, group, _sum_and_divide, _gather)
    return _Collective.apply(tensor, group, _sum, _keep)
