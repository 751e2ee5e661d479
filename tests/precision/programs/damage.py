"""What is broken in a model before its first step, or between a backward pass and the optimizer."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from cases import Fault


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Any, factor: float) -> Any:
        context.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(context: Any, gradient: Any) -> Any:
        return gradient * context.factor, None


def first(value: Any, change: Any) -> Any:
    return (change(value[0]), *value[1:]) if isinstance(value, tuple) else change(value)


def around(module: Any, before: Any = None, after: Any = None) -> None:
    original = module.forward

    def forward(x: Any, *arguments: Any, **keywords: Any) -> Any:
        result = original(before(x) if before else x, *arguments, **keywords)
        return first(result, after) if after else result

    module.forward = forward


def scale_row(amount: float) -> Any:
    def change(x: Any) -> Any:
        factor = torch.ones(x.shape[-1], device=x.device, dtype=x.dtype)
        factor[3] = 1 + 4 * amount
        return x * factor

    return change


def swap_halves(module: Any) -> None:
    top, bottom = module.weight.data.chunk(2)
    module.weight.data = torch.cat([bottom, top])


def transpose_product(module: Any) -> None:
    original = module.forward

    def forward(*arguments: Any, **keywords: Any) -> Any:
        weight = module.weight.data
        module.weight.data = weight.t().contiguous()
        result = original(*arguments, **keywords)
        module.weight.data = weight
        return result

    module.forward = forward


def swap_gate(module: Any) -> None:
    """In Megatron-LM's MLP the halves come out of linear_fc1, and the MLP itself multiplies."""
    if hasattr(module, "swapped"):
        module.swapped = True
        return
    original, forward = torch.chunk, module.forward

    def swapped(*arguments: Any, **keywords: Any) -> Any:
        torch.chunk = lambda *a, **k: tuple(reversed(original(*a, **k)))
        try:
            return forward(*arguments, **keywords)
        finally:
            torch.chunk = original

    module.forward = swapped


def move_mask(module: Any) -> None:
    if hasattr(module, "ahead"):
        module.ahead = 1
        return
    original = module.forward

    def forward(query: Any, key: Any, value: Any, mask: Any, *rest: Any, **keywords: Any) -> Any:
        if mask is None:  # MindSpeed makes its own further down
            length = query.shape[0]
            mask = torch.ones(1, 1, length, length, dtype=torch.bool, device=query.device)
        return original(query, key, value, mask.triu(2), *rest, **keywords)

    module.forward = forward


def damage(fault: Fault, model: Any) -> Any:  # noqa: C901 - a case a kind
    """Break a model before its first step; gives the module broken now or later."""
    module = dict(model.named_modules())[fault.target.partition(".")[2]]
    amount = fault.amount
    match fault.kind:
        case "operator-value":
            around(module, after=lambda x: x * (1 + amount))
        case "operator-row":
            around(module, after=scale_row(amount))
        case "transposed-weight":
            module.weight.data = module.weight.data.t().contiguous()
        case "transposed-product":
            transpose_product(module)
        case "lost-gradient":
            around(module, after=lambda x: x.detach())
        case "scaled-backward":
            around(module, after=lambda x: Scaled.apply(x, 1 + amount))
        case "mask":
            move_mask(module)
        case "half-precision":
            around(module, after=lambda x: x.to(torch.float16))
        case "gate-up-order":
            swap_gate(module)
        case "gate-up-weight":
            swap_halves(module)
        case "stale-buffer":
            module.stale = True
    return module


def disturb(fault: Fault, module: Any, optimizer: Any, step: int) -> None:
    """Break what lies between backward and torch's optimizer, also below Megatron-LM's."""
    for weight in module.parameters():
        gradient = getattr(weight, "main_grad", weight.grad)
        match fault.kind:
            case "zero-gradient":
                gradient.zero_()
            case "wrong-group":
                # As if another group's gradient had been added up: every rank has its own.
                gradient.mul_(1 + (dist.get_rank() + 1) * fault.amount)
            case "dropped-state" if step == 1:
                optimizer.state.pop(getattr(weight, "main_param", weight))
