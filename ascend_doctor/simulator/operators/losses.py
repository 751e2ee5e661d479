"""Gradients of aten operators for which torch_npu registers formulas of its own."""

# ruff: noqa: ARG001  the signatures are those of torch_npu's schemas

from __future__ import annotations

import torch

from . import factories
from .table import implements

Tensor = torch.Tensor
MEAN = 1  # at::Reduction


def _shared(dy: Tensor, like: Tensor, reduction: int) -> Tensor:
    return dy / like.numel() if reduction == MEAN else dy


@implements("npu::l1_loss_backward")
def l1_loss_backward(dy: Tensor, x: Tensor, target: Tensor, reduction: int) -> Tensor:
    return _shared(dy, x, reduction) * (x - target).sign()


@implements("npu::kl_div_backward")
def kl_div_backward(
    dy: Tensor, x: Tensor, target: Tensor, reduction: int = MEAN, *, log_target: bool = False
) -> Tensor:
    weight = target.exp() if log_target else target.clamp(min=0)
    return -weight * _shared(dy, x, reduction)


@implements("npu::kl_div_target_backward")
def kl_div_target_backward(
    dy: Tensor, x: Tensor, target: Tensor, reduction: int = MEAN, *, log_target: bool = False
) -> Tensor:
    share = _shared(dy, x, reduction)
    if log_target:
        return share * target.exp() * (target + 1 - x)
    return (share * (target.log() + 1 - x)).masked_fill(target == 0, 0.0)


@implements("npu::npu_binary_cross_entropy_with_logits_backward")
def binary_cross_entropy_with_logits_backward(
    dy: Tensor, x: Tensor, target: Tensor, weight: Tensor | None, pos_weight: Tensor | None,
    reduction: int,
) -> Tensor:  # fmt: skip
    if pos_weight is None:
        dx = x.sigmoid() - target
    else:
        positive = pos_weight * target
        dx = (positive + 1 - target) * x.sigmoid() - positive
    dx = dx if weight is None else dx * weight
    return dx * _shared(dy, x, reduction)


@implements("npu::npu_gather_backward")
def gather_backward(
    dy: Tensor, size: list[int], dim: int, index: Tensor, sparse_grad: bool
) -> Tensor:
    return dy.new_zeros(size).scatter_add_(dim, index, dy)


@implements("npu::repeat_interleave_backward_int")
def repeat_interleave_backward_int(
    dy: Tensor, x: Tensor, repeats: int, dim: int | None = None
) -> Tensor:
    if dim is None:
        return dy.view(-1, repeats).sum(-1).view(x.shape)
    return dy.unflatten(dim, (x.shape[dim], repeats)).sum(dim % x.dim() + 1)


@implements("npu::repeat_interleave_backward_tensor")
def repeat_interleave_backward_tensor(
    dy: Tensor, x: Tensor, repeats: Tensor, dim: int | None = None
) -> Tensor:
    axis = 0 if dim is None else dim
    flat = x.flatten() if dim is None else x
    counts = repeats.expand(flat.shape[axis])
    places = torch.repeat_interleave(factories.arange(flat.shape[axis]), counts)
    return torch.zeros_like(flat).index_add_(axis, places, dy).view(x.shape)


@implements("npu::npu_max_backward", "npu::npu_min_backward")
def selected_backward(
    dy: Tensor, dim: int, indices: Tensor, sizes: list[int], keepdim: bool
) -> Tensor:
    if not keepdim:
        dy, indices = dy.unsqueeze(dim), indices.unsqueeze(dim)
    return dy.new_zeros(sizes).scatter_(dim, indices.long(), dy)


@implements("npu::npu_max.dim")
def max_dim(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """As torch.max, with int32 indices."""
    values, indices = x.max(dim, keepdim)
    return values, indices.int()


@implements("npu::npu_min.dim")
def min_dim(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    values, indices = x.min(dim, keepdim)
    return values, indices.int()


@implements("npu::npu_renorm_backward")
def renorm_backward(dy: Tensor, x: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """Gradient of `x * min(1, maxnorm / norm)`, the norm taken over all dimensions but `dim`."""
    others = [d for d in range(x.dim()) if d != dim % x.dim()]
    norm = torch.linalg.vector_norm(x, p, others, keepdim=True)
    factor = torch.where(norm > maxnorm, maxnorm / (norm + 1e-7), torch.ones_like(norm))
    d_norm = torch.where(
        norm > maxnorm, -(dy * x).sum(others, keepdim=True) * maxnorm / (norm + 1e-7).square(), 0.0
    )
    if p == float("inf"):
        largest = x.abs() == norm
        slope = x.sign() * largest / largest.sum(others, keepdim=True)
    else:
        slope = x.sign() * x.abs().pow(p - 1) * norm.pow(1 - p)
    return dy * factor + d_norm * slope.nan_to_num(0.0)


@implements("npu::one_")
def fill_with_ones(x: Tensor) -> Tensor:
    return x.fill_(1)
