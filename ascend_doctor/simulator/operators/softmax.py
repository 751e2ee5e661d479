"""Logarithm of softmax, and the scaled, masked softmax of torch_npu: npu_scaled_masked_softmax."""

import torch

from . import factories
from .table import implements

Tensor = torch.Tensor


@implements("aten::_log_softmax")
def log_softmax(x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """In single precision: torch's CPU kernel sums float16 in float16, which ends at 65504."""
    if x.dtype != torch.float16:
        return torch._log_softmax(x, dim, half_to_float)
    return torch._log_softmax(x.float(), dim, half_to_float).to(x.dtype)


@implements("npu::npu_scaled_masked_softmax")
def scaled_masked_softmax(
    x: Tensor, mask: Tensor, scale: float = 1.0, fixed_triu_mask: bool = False
) -> Tensor:
    """Softmax of x * scale, masked scores at -10000 (op-plugin, test_scaled_masked_softmax.py)."""
    if fixed_triu_mask:
        mask = factories.ones(x.shape[-2:], dtype=torch.bool).triu(1)
    scores = (x.float() * scale).masked_fill(mask.bool(), -10000.0)
    return scores.softmax(-1).to(x.dtype)


@implements("npu::npu_scaled_masked_softmax_backward")
def scaled_masked_softmax_backward(
    dy: Tensor, y: Tensor, mask: Tensor, scale: float, fixed_triu_mask: bool
) -> Tensor:
    if fixed_triu_mask:
        mask = factories.ones(y.shape[-2:], dtype=torch.bool).triu(1)
    dy32, y32 = dy.float(), y.float()
    dx = y32 * (dy32 - (dy32 * y32).sum(-1, keepdim=True)) * scale
    return dx.masked_fill(mask.bool(), 0.0).to(dy.dtype)
