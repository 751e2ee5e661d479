"""Gradients of aten operators for which torch_npu registers formulas of its own."""

# ruff: noqa: ARG001  the signatures are those of torch_npu's schemas

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  its usual name

from .kernels import gradients
from .table import implements

Tensor = torch.Tensor
REDUCTIONS = ("none", "mean", "sum")  # at::Reduction
MEAN = 1
implements("npu::one_")(lambda x: x.fill_(1))


@implements("npu::l1_loss_backward")
def l1_loss_backward(dy: Tensor, x: Tensor, target: Tensor, reduction: int) -> Tensor:
    how = REDUCTIONS[reduction]
    return gradients(lambda x: F.l1_loss(x, target, reduction=how), dy, x)[0]


def _kl_div(
    dy: Tensor, x: Tensor, target: Tensor, reduction: int = MEAN, *, log_target: bool = False
) -> tuple[Tensor, ...]:
    how = {"reduction": REDUCTIONS[reduction], "log_target": log_target}
    return gradients(lambda *of: F.kl_div(*of, **how), dy, x, target)


@implements("npu::kl_div_backward")
def kl_div_backward(*args: Any, **named: Any) -> Tensor:
    return _kl_div(*args, **named)[0]


@implements("npu::kl_div_target_backward")
def kl_div_target_backward(
    dy: Tensor, x: Tensor, target: Tensor, reduction: int = MEAN, *, log_target: bool = False
) -> Tensor:
    gradient = _kl_div(dy, x, target, reduction, log_target=log_target)[1]
    return gradient if log_target else gradient.masked_fill(target == 0, 0.0)


@implements("npu::npu_binary_cross_entropy_with_logits_backward")
def binary_cross_entropy_with_logits_backward(
    dy: Tensor, x: Tensor, target: Tensor, weight: Tensor | None, pos_weight: Tensor | None,
    reduction: int,
) -> Tensor:  # fmt: skip
    how = {"weight": weight, "pos_weight": pos_weight, "reduction": REDUCTIONS[reduction]}
    loss = F.binary_cross_entropy_with_logits
    return gradients(lambda x: loss(x, target, **how), dy, x)[0]


@implements("npu::npu_gather_backward")
def gather_backward(
    dy: Tensor, size: list[int], dim: int, index: Tensor, sparse_grad: bool
) -> Tensor:
    return dy.new_zeros(size).scatter_add_(dim, index, dy)


@implements("npu::repeat_interleave_backward_int", "npu::repeat_interleave_backward_tensor")
def repeat_interleave_backward(
    dy: Tensor, x: Tensor, repeats: int | Tensor, dim: int | None = None
) -> Tensor:
    return gradients(lambda x: x.repeat_interleave(repeats, dim), dy, x)[0]


@implements("npu::npu_max_backward", "npu::npu_min_backward")
def selected_backward(
    dy: Tensor, dim: int, indices: Tensor, sizes: list[int], keepdim: bool
) -> Tensor:
    if not keepdim:
        dy, indices = dy.unsqueeze(dim), indices.unsqueeze(dim)
    return dy.new_zeros(sizes).scatter_(dim, indices.long(), dy)


def _find_extreme(name: str, x: Tensor, *args: Any, **named: Any) -> tuple[Tensor, Tensor]:
    """torch.max or torch.min, with int32 indices."""
    values, indices = getattr(x, name)(*args, **named)
    return values, indices.int()


implements("npu::npu_max.dim")(partial(_find_extreme, "max"))
implements("npu::npu_min.dim")(partial(_find_extreme, "min"))


@implements("npu::npu_renorm_backward")
def renorm_backward(dy: Tensor, x: Tensor, *how: Any) -> Tensor:
    return gradients(lambda x: torch.renorm(x, *how), dy, x)[0]
