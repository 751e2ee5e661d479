"""Merging two parts of ring attention: npu_ring_attention_update.

The formula is that of op-plugin's test_npu_ring_attention_update.py.
"""

# ruff: noqa: ARG001, PLR0913  the signature is that of torch_npu's schema

import torch

from .table import NotSimulatedError, implements

Tensor = torch.Tensor


@implements("npu::npu_ring_attention_update")
def ring_attention_update(
    prev_attn_out: Tensor, prev_softmax_max: Tensor, prev_softmax_sum: Tensor,
    cur_attn_out: Tensor, cur_softmax_max: Tensor, cur_softmax_sum: Tensor, *,
    actual_seq_qlen: Tensor | None = None, input_layout: str = "SBH",
    input_softmax_layout: str = "",
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """(attention, softmax_max, softmax_sum) over the keys of both parts."""
    if input_layout == "TND" and input_softmax_layout != "TND":
        softmax = input_softmax_layout or "the default"
        raise NotSimulatedError(
            "npu_ring_attention_update", f"TND with a softmax layout of {softmax}"
        )
    top = torch.maximum(prev_softmax_max, cur_softmax_max)
    before = prev_softmax_sum * (prev_softmax_max - top).exp()
    now = cur_softmax_sum * (cur_softmax_max - top).exp()
    total = before + now

    def weigh(part: Tensor, weight: Tensor) -> Tensor:
        share = (weight / total)[..., :1]
        if input_layout != "SBH":
            return part.float() * share
        heads = part.float().unflatten(-1, (share.shape[1], -1))
        return (heads * share.permute(2, 0, 1, 3)).flatten(2)

    merged = weigh(prev_attn_out, before) + weigh(cur_attn_out, now)
    return merged.to(prev_attn_out.dtype), top, total
