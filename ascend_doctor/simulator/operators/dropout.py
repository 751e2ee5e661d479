"""Dropout on the simulated NPU, drawing what dropout on the CPU draws."""

from typing import Any

import torch

from . import factories
from .generators import drawing
from .table import implements

Tensor = torch.Tensor
ALIGNMENT = 128  # torch_npu's packed masks hold a multiple of 128 bits


def draw_mask(x: Tensor, p: float) -> Tensor:
    """A boolean mask over x, drawn on the current device."""
    mask = torch.empty_like(x, dtype=torch.bool)
    device = torch.device("npu", torch.npu.current_device())
    return drawing(None, device, x.numel(), lambda g: mask.bernoulli_(1 - p, generator=g))


def scale(x: Tensor, mask: Tensor, p: float) -> Tensor:
    return x * mask.to(x.dtype).div_(1 - p) if p < 1 else torch.zeros_like(x)


@implements("aten::native_dropout")
def native_dropout(x: Tensor, p: float, train: bool | None = None) -> tuple[Tensor, Tensor]:
    if train is False or p == 0:
        return x.clone(), torch.ones_like(x, dtype=torch.bool)
    mask = draw_mask(x, p)
    return scale(x, mask, p), mask


@implements("npu::_npu_dropout", "npu::_dropout_with_byte_mask")
def npu_dropout(x: Tensor, p: float) -> tuple[Tensor, Tensor]:
    """(result, mask of bits packed in bytes)."""
    mask = draw_mask(x, p) if p > 0 else torch.ones_like(x, dtype=torch.bool)
    length = (x.numel() + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
    bits = factories.zeros(length, dtype=torch.uint8)
    bits[: x.numel()] = mask.flatten()
    packed = (bits.view(-1, 8) << factories.arange(8, dtype=torch.uint8)).sum(1, dtype=torch.uint8)
    return scale(x, mask, p), packed


@implements("npu::npu_dropout_backward", "npu::_dropout_with_byte_mask_backward")
def npu_dropout_backward(dy: Tensor, packed: Tensor, p: float) -> Tensor:
    bits: Any = (packed.unsqueeze(1) >> factories.arange(8, dtype=torch.uint8)) & 1
    return scale(dy, bits.flatten()[: dy.numel()].view(dy.shape), p)
