"""Runs the fused masked softmax of torch_npu forwards and backwards, and compares with torch.

MindSpeed calls npu_scaled_masked_softmax where ``masked_softmax_fusion`` is set; on chips before
Ascend950 it needs the built-in kernels of the chip or a compilation by CANN's Python packages tbe
and te, which may fail or never end. ``plain`` is the unfused softmax, which is what remains without
the fusion. Recorded: ``cases`` with the largest errors, and ``packages``, what a compilation
imports.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import partial
from typing import Any

import _cases
import _probe
from _probe import Probe

MANIFEST = {
    "order": 100,
    "level": 2,
    "seconds": 300,
    "seconds_cpu": 90,
    "needs": ["device"],
    "forked": True,
    "does": (
        "`npu_scaled_masked_softmax` in three dtypes by value and gradient, and the unfused one"
    ),
    "on_cpu": "skipped: there is no such operator",
}

SHAPE = (1, 2, 64, 64)
SCALE = 0.5
# What Megatron fills with, in place of infinity (attention_mask_func of
# megatron/core/transformer/utils.py).
MASKED = -10000.0
# A first call may compile.
CASE_SECONDS = 180.0
# What compiles, and what its Python part imports first.
PACKAGES = ("tbe", "te", "attr", "decorator", "psutil", "scipy", "cloudpickle")

Softmax = Callable[[Any, Any], Any]


def body(probe: Probe) -> None:
    """The fused softmax of torch_npu, by value and gradient."""
    if probe.device != "npu":
        probe.skip(f"npu_scaled_masked_softmax is an operator of NPUs, not of {probe.device}")
    with probe.stage("packages"):
        probe.measure("packages", {name: find_installed(name) for name in PACKAGES})
    _cases.run(probe, __file__, list(CASES), limit=CASE_SECONDS, cases=CASES)


def find_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def fused(torch: Any, device: str, dtype: str) -> dict[str, Any]:
    import torch_npu

    def softmax(scores: Any, mask: Any) -> Any:
        # Only fixed_triu_mask=False is documented.
        return torch_npu.npu_scaled_masked_softmax(scores, mask, SCALE, False)  # noqa: FBT003

    return compare(torch, device, dtype, softmax)


def plain(torch: Any, device: str) -> dict[str, Any]:
    """As Megatron computes without the fusion."""

    def softmax(scores: Any, mask: Any) -> Any:
        return torch.softmax((scores * SCALE).masked_fill(mask, MASKED), dim=-1)

    return compare(torch, device, "float32", softmax)


def compare(torch: Any, device: str, dtype: str, softmax: Softmax) -> dict[str, Any]:
    """The largest errors of values, row sums, masked entries and gradients."""
    generator = torch.Generator().manual_seed(1234)
    scores = torch.randn(SHAPE, generator=generator).to(getattr(torch, dtype))
    weight = torch.randn(SHAPE, generator=generator)
    mask = torch.ones(1, 1, *SHAPE[2:], dtype=torch.bool).triu(1)
    leaf = scores.to(device, copy=True).requires_grad_()
    output = softmax(leaf, mask.to(device))
    (output.float() * weight.to(device)).sum().backward()
    exact = scores.double().requires_grad_()
    expected = torch.softmax((exact * SCALE).masked_fill(mask, float("-inf")), dim=-1)
    (expected * weight.double()).sum().backward()
    got, gradient = output.detach().cpu().double(), leaf.grad.cpu().double()
    return {
        "value": (got - expected).abs().max().item(),
        "row_sum": (got.sum(-1) - 1).abs().max().item(),
        "masked": got.masked_select(mask).abs().max().item(),
        "gradient": (gradient - exact.grad).abs().max().item(),
    }


CASES: dict[str, _cases.Case] = {
    "plain": plain,
    "fused float16": partial(fused, dtype="float16"),
    "fused bfloat16": partial(fused, dtype="bfloat16"),
    "fused float32": partial(fused, dtype="float32"),
}


if __name__ == "__main__":
    _cases.answer(CASES)
    _probe.main(body, name="fused-softmax")
