"""Runs fused attention forwards and backwards and compares it with the plain one in float64.

Run it alone: ``python probes/flash_attention.py --device npu``. The cases ``sdpa ...`` are torch's
scaled_dot_product_attention and run everywhere. On NPUs npu_fusion_attention follows, with the
masks that training hands it: none, one of 2, 3 or 4 dimensions with padding in it, the compressed
triangle of 2048 x 2048 that MindSpeed makes (a dense mask in its place, or the triangle where a
padding mask was meant, is a known failure that shows up later as an asynchronous error), and
sequences packed behind each other. Recorded: ``cases`` with the largest errors of values and
gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import _cases
import _probe
from _probe import Probe

BATCH, HEADS, GROUPS, LENGTH, WIDTH = 2, 4, 2, 64, 64
SCALE = WIDTH**-0.5
# The last positions of the second sample are padding.
PADDING = 5
# Of the packed case; together as long as a batch.
LENGTHS = (40, 1, 87)
TRIANGLE = 2048
# A first call may compile.
CASE_SECONDS = 180.0

Attention = Callable[[Any, Any, Any], Any]


def body(probe: Probe) -> None:
    """Fused attention by value and gradient, for the masks of training."""
    names = [one for one in CASES if probe.device == "npu" or one.startswith("sdpa")]
    _cases.run(probe, __file__, names, limit=CASE_SECONDS)


def padded(torch: Any, *, heads: int = 1) -> Any:
    """Who may not be seen, [batch, heads, length, length]: what comes later, and padding."""
    mask = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1).repeat(BATCH, heads, 1, 1)
    mask[-1, :, :, -PADDING:] = True
    return mask


def causal(torch: Any) -> Any:
    return torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)


def blocks(torch: Any) -> Any:
    """The mask of packed sequences: each sees what came before in itself."""
    whole = torch.ones(sum(LENGTHS), sum(LENGTHS), dtype=torch.bool)
    start = 0
    for one in LENGTHS:
        whole[start : start + one, start : start + one] = False
        start += one
    return whole | torch.ones_like(whole).triu(1)


def compare(torch: Any, place: str, attention: Attention, mask: Any, packed: bool) -> Any:
    """The largest errors of values and gradients against float64 on the CPU.

    Tensors are [batch, heads, length, width]; packed ones are one sample of all lengths.
    """
    batch, length = (1, sum(LENGTHS)) if packed else (BATCH, LENGTH)
    generator = torch.Generator().manual_seed(1234)
    shapes = [(batch, heads, length, WIDTH) for heads in (HEADS, GROUPS, GROUPS, HEADS)]
    drawn = [torch.randn(one, generator=generator).to(torch.bfloat16) for one in shapes]
    *inputs, weight = drawn
    leaves = [one.to(place, copy=True).requires_grad_() for one in inputs]
    output = attention(*leaves)
    (output.float() * weight.to(place).float()).sum().backward()
    exact = [one.double().requires_grad_() for one in inputs]
    wanted = plain(torch, *exact, mask)
    (wanted * weight.double()).sum().backward()
    errors = [
        ((got.grad.cpu().double() - one.grad).abs().max() / one.grad.abs().max()).item()
        for got, one in zip(leaves, exact, strict=True)
    ]
    return {
        "value": (output.detach().cpu().double() - wanted).abs().max().item(),
        "gradient": max(errors),
    }


def plain(torch: Any, query: Any, key: Any, value: Any, mask: Any) -> Any:
    """Attention as it is defined."""
    key, value = (one.repeat_interleave(HEADS // GROUPS, 1) for one in (key, value))
    scores = query @ key.transpose(-1, -2) * SCALE
    if mask is not None:
        scores = scores.masked_fill(mask, float("-inf"))
    return torch.softmax(scores, -1) @ value


def sdpa(torch: Any, place: str, kind: str) -> Any:
    """Torch's own, which torch_npu answers on NPUs."""
    function = torch.nn.functional.scaled_dot_product_attention
    mask = {"causal": causal, "padding": padded}[kind](torch)
    given = {"is_causal": True} if kind == "causal" else {"attn_mask": ~mask.to(place)}

    def attention(query: Any, key: Any, value: Any) -> Any:
        several = (one.repeat_interleave(HEADS // GROUPS, 1) for one in (key, value))
        return function(query, *several, **given)

    return compare(torch, place, attention, mask, packed=False)


def fusion(torch: Any, place: str, kind: str) -> Any:
    """npu_fusion_attention with one of the masks of ``MASKS``."""
    import torch_npu

    layout, wanted, given, mode = MASKS[kind](torch)
    options: dict[str, Any] = {"sparse_mode": mode} if mode else {}
    if kind == "packed":
        ends = [sum(LENGTHS[: place + 1]) for place in range(len(LENGTHS))]
        options |= {"actual_seq_qlen": ends, "actual_seq_kvlen": ends}

    def attention(query: Any, key: Any, value: Any) -> Any:
        inputs = [INTO[layout](one) for one in (query, key, value)]
        mask = None if given is None else given.to(place)
        output = torch_npu.npu_fusion_attention(
            *inputs, HEADS, layout, atten_mask=mask, scale=SCALE, keep_prob=1.0, **options
        )[0]
        return BACK[layout](output)

    return compare(torch, place, attention, wanted, packed=kind == "packed")


# To a layout from [batch, heads, length, width], and back.
INTO: dict[str, Callable[[Any], Any]] = {
    "BNSD": lambda one: one,
    "SBH": lambda one: one.permute(2, 0, 1, 3).flatten(2).contiguous(),
    "BSND": lambda one: one.transpose(1, 2).contiguous(),
    "TND": lambda one: one[0].transpose(0, 1).contiguous(),
}
BACK: dict[str, Callable[[Any], Any]] = {
    "BNSD": lambda one: one,
    "SBH": lambda one: one.unflatten(2, (HEADS, WIDTH)).permute(1, 2, 0, 3),
    "BSND": lambda one: one.transpose(1, 2),
    "TND": lambda one: one.transpose(0, 1)[None],
}


def triangle(torch: Any) -> Any:
    return torch.ones(TRIANGLE, TRIANGLE, dtype=torch.bool).triu(1)


# By name: layout, the mask that is meant, the one that is given, and the sparse mode (2: causal
# from the left upper corner, 3: from the right lower one; both take the compressed triangle,
# Ascend/op-plugin@master:docs/zh/custom_APIs/torch_npu/torch_npu-npu_fusion_attention.md).
MASKS: dict[str, Callable[[Any], tuple[str, Any, Any, int]]] = {
    "no mask": lambda _: ("BNSD", None, None, 0),
    "causal, 2 dimensions": lambda torch: ("SBH", causal(torch), causal(torch), 0),
    "padding, one for all heads": lambda torch: ("BSND", padded(torch), padded(torch), 0),
    "padding, one a head": lambda torch: (
        "BNSD",
        padded(torch, heads=HEADS),
        padded(torch, heads=HEADS),
        0,
    ),
    "compressed triangle": lambda torch: ("SBH", causal(torch), triangle(torch), 2),
    "packed": lambda torch: ("TND", blocks(torch), triangle(torch), 3),
}

CASES: dict[str, _cases.Case] = {
    **{f"sdpa {one}": partial(sdpa, kind=one) for one in ("causal", "padding")},
    **{one: partial(fusion, kind=one) for one in MASKS},
}


if __name__ == "__main__":
    _cases.answer(CASES)
    _probe.main(body, name="flash-attention")
