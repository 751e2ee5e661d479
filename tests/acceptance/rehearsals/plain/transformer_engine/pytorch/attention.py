"""Attention over whole scores, in single precision."""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch


class DotProductAttention(torch.nn.Module):
    """Queries (sequence, batch, heads, channels), fewer heads of keys and values, as Megatron has.

    With ``thd`` the sequences of a batch follow one another (tokens, heads, channels) and
    ``cu_seqlens`` has their starts. The mask is true where nothing may be seen.
    """

    def __init__(
        self,
        num_attention_heads: int,
        kv_channels: Any,
        attention_dropout: float = 0.0,
        attn_mask_type: str = "causal",
        softmax_scale: Any = None,
        **_: Any,
    ) -> None:
        super().__init__()
        channels = kv_channels if isinstance(kv_channels, int) else kv_channels[0]
        self.scale = softmax_scale or 1 / math.sqrt(channels)
        self.dropout, self.mask_type = attention_dropout, attn_mask_type

    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: Any = None,
        attn_mask_type: Any = None,
        qkv_format: str = "sbhd",
        cu_seqlens_q: Any = None,
        cu_seqlens_kv: Any = None,
        **_: Any,
    ) -> torch.Tensor:
        kind = attn_mask_type or self.mask_type
        if qkv_format == "thd":
            bounds = [row.tolist() for row in (cu_seqlens_q, cu_seqlens_kv)]
            lengths = [[end - at for at, end in itertools.pairwise(row)] for row in bounds]
            shares = [query[: bounds[0][-1]].split(lengths[0])]
            shares += [each[: bounds[1][-1]].split(lengths[1]) for each in (key, value)]
            rows = [
                self._attend(*(part.unsqueeze(1) for part in parts), kind, None).squeeze(1)
                for parts in zip(*shares, strict=True)
            ]
            rest = query[bounds[0][-1] :].flatten(1) * 0
            return torch.cat([*rows, rest])
        if qkv_format == "bshd":
            parts = [each.transpose(0, 1) for each in (query, key, value)]
            return self._attend(*parts, kind, attention_mask).transpose(0, 1)
        return self._attend(query, key, value, kind, attention_mask)

    def _attend(self, query: Any, key: Any, value: Any, kind: str, mask: Any) -> torch.Tensor:
        heads, dtype = query.shape[2], query.dtype
        key, value = (each.repeat_interleave(heads // each.shape[2], 2) for each in (key, value))
        query, key, value = (each.permute(1, 2, 0, 3).float() for each in (query, key, value))
        scores = query @ key.transpose(-1, -2) * self.scale
        if "causal" in kind:
            shape = scores.shape[-2:]
            hidden = torch.ones(shape, dtype=torch.bool).triu(shape[1] - shape[0] + 1)
            scores = scores.masked_fill(hidden, float("-inf"))
        if mask is not None and kind not in {"causal", "no_mask"}:
            scores = scores.masked_fill(mask.bool(), -10000.0)
        chances = torch.nn.functional.dropout(scores.softmax(-1), self.dropout, self.training)
        result = (chances @ value).permute(2, 0, 1, 3).flatten(2)
        return result.to(dtype)
