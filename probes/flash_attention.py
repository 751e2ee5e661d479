"""Runs fused attention forwards and backwards and compares it with the plain one in float64.

The cases ``sdpa ...`` are torch's scaled_dot_product_attention and run everywhere. On NPUs
npu_fusion_attention follows, with the masks that training hands it: none, one of 2, 3 or 4
dimensions with padding in it, the compressed triangle of 2048 x 2048 that MindSpeed makes (a dense
mask in its place, or the triangle where a padding mask was meant, is a known failure that shows up
later as an asynchronous error), and sequences packed behind each other. Recorded: ``cases`` with
the largest errors of values and gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import _cases
import _probe
from _probe import Probe

MANIFEST = {
    "order": 120,
    "level": 2,
    "seconds": 600,
    "seconds_cpu": 90,
    "needs": ["device"],
    "forked": True,
    "does": (
        "torch's attention, and `npu_fusion_attention` in four layouts with six masks: none, dense "
        "ones with padding, the compressed triangle, packed sequences; values and gradients"
    ),
    "on_cpu": "torch's alone",
}

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
    names = [name for name in CASES if probe.device == "npu" or name.startswith("sdpa")]
    _cases.run(probe, __file__, names, limit=CASE_SECONDS, cases=CASES)


def pad(torch: Any, *, heads: int = 1) -> Any:
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
    for length in LENGTHS:
        whole[start : start + length, start : start + length] = False
        start += length
    return whole | torch.ones_like(whole).triu(1)


def compare(torch: Any, device: str, attention: Attention, mask: Any, packed: bool) -> Any:
    """The largest errors of values and gradients against float64 on the CPU.

    Tensors are [batch, heads, length, width]; packed ones are one sample of all lengths.
    """
    batch, length = (1, sum(LENGTHS)) if packed else (BATCH, LENGTH)
    generator = torch.Generator().manual_seed(1234)
    shapes = [(batch, heads, length, WIDTH) for heads in (HEADS, GROUPS, GROUPS, HEADS)]
    drawn = [torch.randn(shape, generator=generator).to(torch.bfloat16) for shape in shapes]
    *inputs, weight = drawn
    leaves = [tensor.to(device, copy=True).requires_grad_() for tensor in inputs]
    output = attention(*leaves)
    (output.float() * weight.to(device).float()).sum().backward()
    exact = [tensor.double().requires_grad_() for tensor in inputs]
    expected = plain(torch, *exact, mask)
    (expected * weight.double()).sum().backward()
    errors = [
        ((got.grad.cpu().double() - leaf.grad).abs().max() / leaf.grad.abs().max()).item()
        for got, leaf in zip(leaves, exact, strict=True)
    ]
    return {
        "value": (output.detach().cpu().double() - expected).abs().max().item(),
        "gradient": max(errors),
    }


def plain(torch: Any, query: Any, key: Any, value: Any, mask: Any) -> Any:
    """Attention as it is defined."""
    key, value = (tensor.repeat_interleave(HEADS // GROUPS, 1) for tensor in (key, value))
    scores = query @ key.transpose(-1, -2) * SCALE
    if mask is not None:
        scores = scores.masked_fill(mask, float("-inf"))
    return torch.softmax(scores, -1) @ value


def sdpa(torch: Any, device: str, kind: str) -> Any:
    """Torch's own, which torch_npu answers on NPUs."""
    function = torch.nn.functional.scaled_dot_product_attention
    mask = {"causal": causal, "padding": pad}[kind](torch)
    mask_options = {"is_causal": True} if kind == "causal" else {"attn_mask": ~mask.to(device)}

    def attention(query: Any, key: Any, value: Any) -> Any:
        several = (tensor.repeat_interleave(HEADS // GROUPS, 1) for tensor in (key, value))
        return function(query, *several, **mask_options)

    return compare(torch, device, attention, mask, packed=False)


def fusion(torch: Any, device: str, kind: str) -> Any:
    """npu_fusion_attention with one of the masks of ``MASKS``."""
    import torch_npu

    layout, mask_wanted, mask_given, mode = MASKS[kind](torch)
    options: dict[str, Any] = {"sparse_mode": mode} if mode else {}
    if kind == "packed":
        ends = [sum(LENGTHS[: number + 1]) for number in range(len(LENGTHS))]
        options |= {"actual_seq_qlen": ends, "actual_seq_kvlen": ends}

    def attention(query: Any, key: Any, value: Any) -> Any:
        inputs = [INTO[layout](tensor) for tensor in (query, key, value)]
        mask = None if mask_given is None else mask_given.to(device)
        output = torch_npu.npu_fusion_attention(
            *inputs, HEADS, layout, atten_mask=mask, scale=SCALE, keep_prob=1.0, **options
        )[0]
        return BACK[layout](output)

    return compare(torch, device, attention, mask_wanted, packed=kind == "packed")


# To a layout from [batch, heads, length, width], and back.
INTO: dict[str, Callable[[Any], Any]] = {
    "BNSD": lambda tensor: tensor,
    "SBH": lambda tensor: tensor.permute(2, 0, 1, 3).flatten(2).contiguous(),
    "BSND": lambda tensor: tensor.transpose(1, 2).contiguous(),
    "TND": lambda tensor: tensor[0].transpose(0, 1).contiguous(),
}
BACK: dict[str, Callable[[Any], Any]] = {
    "BNSD": lambda tensor: tensor,
    "SBH": lambda tensor: tensor.unflatten(2, (HEADS, WIDTH)).permute(1, 2, 0, 3),
    "BSND": lambda tensor: tensor.transpose(1, 2),
    "TND": lambda tensor: tensor.transpose(0, 1)[None],
}


def triangle(torch: Any) -> Any:
    return torch.ones(TRIANGLE, TRIANGLE, dtype=torch.bool).triu(1)


# By name: layout, the mask that is meant, the one that is given, and the sparse mode (2: causal
# from the left upper corner, 3: from the right lower one; both take the compressed triangle,
# Ascend/op-plugin@master:docs/zh/custom_APIs/torch_npu/torch_npu-npu_fusion_attention.md).
MASKS: dict[str, Callable[[Any], tuple[str, Any, Any, int]]] = {
    "no mask": lambda _: ("BNSD", None, None, 0),
    "causal, 2 dimensions": lambda torch: ("SBH", causal(torch), causal(torch), 0),
    "padding, one for all heads": lambda torch: ("BSND", pad(torch), pad(torch), 0),
    "padding, one a head": lambda torch: (
        "BNSD",
        pad(torch, heads=HEADS),
        pad(torch, heads=HEADS),
        0,
    ),
    "compressed triangle": lambda torch: ("SBH", causal(torch), triangle(torch), 2),
    "packed": lambda torch: ("TND", blocks(torch), triangle(torch), 3),
}

CASES: dict[str, _cases.Case] = {
    "sdpa causal": partial(sdpa, kind="causal"),
    "sdpa padding": partial(sdpa, kind="padding"),
    **{kind: partial(fusion, kind=kind) for kind in MASKS},
}


if __name__ == "__main__":
    _cases.answer(CASES)
    _probe.main(body, name="flash-attention")
