"""Large tensors of the host at true size: what draws, casts or copies them writes no page."""

import functools
from collections.abc import Callable
from typing import Any

import torch

from . import peaks

Tensor = torch.Tensor
_SMALL = 1 << 22  # elements
_WRITING = ("normal_", "uniform_", "fill_", "zero_", "copy_", "mul_", "add_", "clamp_")
_CASTS = {"float": torch.float32, "half": torch.float16, "bfloat16": torch.bfloat16}


def _is_large(tensor: Tensor) -> bool:
    return (
        type(tensor) in {Tensor, torch.nn.Parameter}
        and tensor.is_cpu
        and tensor.numel() > _SMALL
        and tensor.is_floating_point()
        and not (tensor.requires_grad and torch.is_grad_enabled())
    )


def _answer(name: str, tensor: Tensor, args: tuple[Any, ...], kwargs: Any) -> Tensor | None:
    """The tensor, or one of its new size; None where something else is asked."""
    if name in _WRITING:
        on_device = args and isinstance(args[0], Tensor) and not args[0].is_cpu
        return None if on_device else tensor
    dtype = _CASTS.get(name, tensor.dtype)
    if name == "to":
        words = {key: value for key, value in kwargs.items() if key != "copy"}
        device, asked, *_ = torch._C._nn._parse_to(*args, **words)
        dtype = asked if asked and (device is None or device.type == "cpu") else dtype
    if dtype == tensor.dtype and name != "clone":
        return None
    peaks.assume("large tensors of the host have no values")
    return torch.empty_like(tensor, dtype=dtype, requires_grad=False)


def _size_only(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        answer = _answer(name, self, args, kwargs) if _is_large(self) else None
        return original(self, *args, **kwargs) if answer is None else answer

    return method


def spare() -> None:
    for name in (*_WRITING, *_CASTS, "to", "clone"):
        setattr(Tensor, name, _size_only(name, getattr(Tensor, name)))
