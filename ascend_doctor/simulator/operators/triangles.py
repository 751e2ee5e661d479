"""Large boolean triangles: torch_npu makes one of 2048 x 2048 at each causal attention.

Source: op-plugin, op_plugin/ops/opapi/ScaledDotProductAttentionKernelNpuOpApi.cpp,
convert_boolean_attn_mask.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch

from . import factories
from .kernels import Written
from .table import implements

LARGE = 1 << 20


@implements("aten::ones")
def ones(size: Sequence[int], **named: Any) -> torch.Tensor | Written:
    """Ones; large boolean ones are written in place."""
    if named.get("dtype") != torch.bool or torch.Size(size).numel() < LARGE:
        return factories.ones(size, **named)
    return Written(size, torch.bool, lambda out: out.view(torch.uint8).fill_(1))


@implements("aten::triu")
def triu(x: torch.Tensor, diagonal: int = 0) -> torch.Tensor | Written:
    """The upper triangle; a large boolean one is written in place, by a mask that is kept."""
    if x.dtype != torch.bool or x.numel() < LARGE:
        return torch.triu(x, diagonal)
    upper = _upper(x.shape[-2], x.shape[-1], diagonal)
    return Written(x.shape, torch.bool, lambda out: torch.logical_and(x, upper, out=out))


@lru_cache(maxsize=4)
def _upper(rows: int, columns: int, diagonal: int) -> torch.Tensor:
    return factories.ones(rows, columns, dtype=torch.bool).triu(diagonal)
