"""Runs the fused operators of torch_npu that Megatron uses through MindSpeed, against plain ones.

Root mean square norm (also with the addition before it), rotary embedding, SwiGLU, the grouped
matrix product of experts (one of them without tokens), and the permutation of tokens to experts and
back, each with its gradients where it has any. Recorded: ``cases`` with the largest errors relative
to the largest element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import _cases
import _probe
from _probe import Probe

MANIFEST = {
    "order": 130,
    "level": 2,
    "seconds": 600,
    "seconds_cpu": 90,
    "needs": ["device"],
    "forked": True,
    "does": (
        "`npu_rms_norm`, `npu_add_rms_norm`, `npu_rotary_mul`, `npu_swiglu`, `npu_grouped_matmul`, "
        "`npu_moe_token_permute` and back"
    ),
    "on_cpu": "skipped: these are operators of torch_npu",
}

# A first call may compile.
CASE_SECONDS = 180.0
EPSILON = 1e-6
TOKENS, WIDTH, EXPERTS, CHOICES = 64, 128, 4, 2


def body(probe: Probe) -> None:
    """The fused operators of torch_npu, by value and gradient."""
    if probe.device != "npu":
        probe.skip(f"these are operators of torch_npu, not of {probe.device}")
    _cases.run(probe, __file__, list(CASES), limit=CASE_SECONDS, cases=CASES)


class Draw:
    """Numbers for both sides: bfloat16 on the device, the same in float64 on the CPU."""

    def __init__(self, torch: Any, device: str) -> None:
        self.torch, self.device = torch, device
        self._generator = torch.Generator().manual_seed(1234)

    def pair(self, *shape: int, offset: float = 0.0) -> tuple[Any, Any]:
        """A tensor that wants gradients, there and here."""
        drawn = self.torch.randn(shape, generator=self._generator) + offset
        rounded = drawn.to(self.torch.bfloat16)
        return rounded.to(
            self.device, copy=True
        ).requires_grad_(), rounded.double().requires_grad_()

    def compare(self, pairs: Sequence[tuple[Any, Any]], got: Any, expected: Any) -> dict[str, Any]:
        """Relative errors of the output, and of the gradients of the pairs."""
        errors = {"value": self._off(got.detach(), expected.detach())}
        if pairs:
            weight = self.torch.randn(expected.shape, generator=self._generator)
            (expected * weight.double()).sum().backward()
            # As float32: what is cast on the way is cast on the device, which may have no float64.
            (got.float() * weight.to(self.device)).sum().backward()
            errors["gradient"] = max(self._off(leaf.grad, other.grad) for leaf, other in pairs)
        return errors

    def _off(self, got: Any, expected: Any) -> float:
        difference = (got.cpu().double() - expected).abs().max() / expected.abs().max()
        return float(difference)


def normalise(hidden: Any, gain: Any) -> Any:
    return hidden * (hidden.pow(2).mean(-1, keepdim=True) + EPSILON).rsqrt() * gain


def rms_norm(torch: Any, device: str) -> dict[str, Any]:
    import torch_npu

    draw = Draw(torch, device)
    (x, exact), (gain, exact_gain) = draw.pair(TOKENS, WIDTH), draw.pair(WIDTH, offset=1.0)
    got = torch_npu.npu_rms_norm(x, gain, epsilon=EPSILON)[0]
    expected = normalise(exact, exact_gain)
    return draw.compare([(x, exact), (gain, exact_gain)], got, expected)


def add_rms_norm(torch: Any, device: str) -> dict[str, Any]:
    import torch_npu

    draw = Draw(torch, device)
    hidden, other, gain = draw.pair(TOKENS, WIDTH), draw.pair(TOKENS, WIDTH), draw.pair(WIDTH)
    with torch.no_grad():
        got, _, total = torch_npu.npu_add_rms_norm(hidden[0], other[0], gain[0], EPSILON)
        # The sum is rounded before it is normalised.
        added = total.cpu().double()
        errors = draw.compare([], got, normalise(added, gain[1]))
        return {**errors, "sum": draw.compare([], total, hidden[1] + other[1])["value"]}


def rotary(torch: Any, device: str) -> dict[str, Any]:
    import torch_npu

    draw = Draw(torch, device)
    x, exact = draw.pair(2, TOKENS, 4, WIDTH)
    angle = torch.arange(TOKENS)[:, None] * 10000.0 ** (-torch.arange(0, WIDTH, 2) / WIDTH)
    angle = torch.cat([angle, angle], -1)[None, :, None, :]
    cosine, sine = (table.to(torch.bfloat16) for table in (angle.cos(), angle.sin()))
    got = torch_npu.npu_rotary_mul(x, cosine.to(device), sine.to(device))
    left, right = exact.chunk(2, -1)
    expected = exact * cosine.double() + torch.cat([-right, left], -1) * sine.double()
    return draw.compare([(x, exact)], got, expected)


def swiglu(torch: Any, device: str) -> dict[str, Any]:
    import torch_npu

    draw = Draw(torch, device)
    x, exact = draw.pair(TOKENS, 2 * WIDTH)
    gate, up = exact.chunk(2, -1)
    expected = torch.nn.functional.silu(gate) * up
    return draw.compare([(x, exact)], torch_npu.npu_swiglu(x, dim=-1), expected)


def multiply_groups(torch: Any, device: str) -> dict[str, Any]:
    """Products of the tokens of each expert; one expert has none."""
    import torch_npu

    draw = Draw(torch, device)
    (x, exact), (weight, exact_weight) = (
        draw.pair(TOKENS, WIDTH),
        draw.pair(EXPERTS, WIDTH, 2 * WIDTH),
    )
    # Where the tokens of each expert end; the second one has none.
    ends = [10, 10, 37, TOKENS]
    with torch.no_grad():
        got = torch_npu.npu_grouped_matmul(
            [x],
            [weight],
            group_list=torch.tensor(ends, dtype=torch.int64, device=device),
            split_item=3,
            group_type=0,
            group_list_type=0,
        )[0]
        starts = [0, *ends[:-1]]
        parts = [
            exact[start:end] @ weight_of_expert
            for start, end, weight_of_expert in zip(starts, ends, exact_weight, strict=True)
        ]
        return draw.compare([], got, torch.cat(parts))


def permutation(torch: Any, device: str) -> dict[str, Any]:
    """To the experts, in the order of their numbers, and back with weights."""
    import torch_npu

    draw = Draw(torch, device)
    tokens, exact = draw.pair(TOKENS, WIDTH)
    # Two different experts a token; not all experts get the same number.
    chosen = torch.stack([torch.arange(TOKENS) * 7 % 3, torch.full((TOKENS,), 3)], 1)
    weights = torch.tensor([0.75, 0.25]).repeat(TOKENS, 1)
    sent, order = torch_npu.npu_moe_token_permute(tokens, chosen.to(device))
    source = torch.argsort(chosen.flatten(), stable=True) // CHOICES
    arrived = draw.compare([], sent, exact.detach()[source])
    back = torch_npu.npu_moe_token_unpermute(sent, order, probs=weights.to(device, torch.bfloat16))
    errors = draw.compare([(tokens, exact)], back, exact * weights.sum(1, keepdim=True).double())
    return {**errors, "arrived": arrived["value"]}


CASES: dict[str, _cases.Case] = {
    "rms norm": rms_norm,
    "addition and rms norm": add_rms_norm,
    "rotary embedding": rotary,
    "swiglu": swiglu,
    "grouped matrix product": multiply_groups,
    "permutation of tokens": permutation,
}


if __name__ == "__main__":
    _cases.answer(CASES)
    _probe.main(body, name="fused-ops")
