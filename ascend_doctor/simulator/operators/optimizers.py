"""Optimizer steps of torch_npu."""

# ruff: noqa: PLR0913, PLR0917  the signatures are those of torch_npu's schemas

import torch

from .table import implements

Tensor = torch.Tensor


@implements("npu::npu_apply_adam_w.out")
def apply_adam_w(
    beta1_power: float, beta2_power: float, lr: float, weight_decay: float, beta1: float,
    beta2: float, epsilon: float, grad: Tensor, max_grad_norm: Tensor | None, amsgrad: bool | None,
    maximize: bool | None, *, out: list[Tensor],
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """One AdamW step on out = (var, m, v); the powers are those before this step.

    The formula is that of op-plugin's test_apply_adam_w.py.
    """
    var, m, v = out
    gradient = -grad if maximize else grad
    m.mul_(beta1).add_(gradient, alpha=1 - beta1)
    v.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
    second = v
    if amsgrad and max_grad_norm is not None:
        second = torch.maximum(max_grad_norm, v, out=max_grad_norm)
    denominator = (second / (1 - beta2_power * beta2)).sqrt().add_(epsilon)
    var.mul_(1 - lr * weight_decay)
    var.addcdiv_(m, denominator, value=-lr / (1 - beta1_power * beta1))
    return var, m, v


@implements("npu::_amp_foreach_non_finite_check")
def non_finite_check(scaled_grads: list[Tensor]) -> bool:
    """Whether any gradient has a value that is not finite."""
    return not all(bool(torch.isfinite(g).all()) for g in scaled_grads)
