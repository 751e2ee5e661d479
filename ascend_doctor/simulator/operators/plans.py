"""What the result of an operator is at true size: its shape, and memory without values."""

import ctypes
import os
from collections.abc import Iterable
from typing import Any, NamedTuple

import torch

from . import factories
from .kernels import DEVICE
from .memory import host, release, wait_for

Tensor = torch.Tensor
# The variable that names the folder for what ranks used; with it everything is of true size.
FOLDER = "ASCEND_SIMULATOR_TRUE_SIZE"
META = torch.device("meta")
# As settings.c: so many bytes of a number of the largest kind are still moved.
SMALL = 1 << 16
SMALL_INTEGERS = 1 << 22
INTEGERS = frozenset({
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
})  # fmt: skip


def is_computed(tensor: Tensor) -> bool:
    """Whether what writes all of a tensor is to compute it."""
    return FOLDER not in os.environ or tensor.numel() <= SMALL


class Sized(NamedTuple):
    """A tensor without values. ``stride`` is None where it is contiguous."""

    size: tuple[int, ...]
    stride: tuple[int, ...] | None
    dtype: torch.dtype
    elements: int

    def make(self, device: torch.device) -> Tensor:
        if self.stride is None:
            made = factories.empty(self.size, dtype=self.dtype, device=device)
        else:
            made = torch.empty_strided(self.size, self.stride, dtype=self.dtype, device=device)
        if self.elements > SMALL:
            release(made)
        elif self.elements:
            wait_for(made.get_device())
            if self.dtype in INTEGERS:
                ctypes.memset(made.data_ptr(), 0, made.untyped_storage().nbytes())
            else:
                host(made).fill_(1)  # its logarithm and its inverse are finite
        return made


class Value(NamedTuple):
    value: Any


class CallSizes:
    """What the arguments of a call are: of which sizes, on which device."""

    __slots__ = ("device", "floats", "largest")

    def __init__(self) -> None:
        self.device: torch.device | None = None
        self.largest = 0
        self.floats = False

    def describe(self, values: Iterable[Any], numbers: bool) -> tuple[Any, ...]:
        """A key that is the same for calls with results of the same sizes."""
        return tuple(self._describe(value, numbers) for value in values)

    def _describe(self, value: Any, numbers: bool) -> Any:
        if isinstance(value, Tensor):
            count = value.numel()
            self.largest = max(self.largest, count)
            self.floats |= count > SMALL and value.dtype not in INTEGERS
            if self.device is None and value.device.type == DEVICE:
                self.device = value.device
            return tuple(value.size()), value.stride(), value.dtype, value.is_cpu
        if isinstance(value, (list, tuple)):
            return self.describe(value, numbers)
        if isinstance(value, float):
            return value if numbers else float
        return None if isinstance(value, torch.Generator) else (type(value), value)


def to_meta(value: Any) -> Any:
    if isinstance(value, Tensor):
        return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=META)
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        return type(value)([to_meta(each) for each in value])
    if isinstance(value, torch.device):
        return META
    return None if isinstance(value, torch.Generator) else value


def make_plan(result: Any) -> Any:
    if isinstance(result, Tensor):
        stride = None if result.is_contiguous() else result.stride()
        return Sized(tuple(result.size()), stride, result.dtype, result.numel())
    if isinstance(result, (list, tuple)):
        return [make_plan(each) for each in result]
    return Value(result)


def tensors_in(plan: Any) -> Iterable[Sized]:
    if isinstance(plan, Sized):
        yield plan
    elif isinstance(plan, list):
        for each in plan:
            yield from tensors_in(each)


def make_results(plan: Any, device: torch.device) -> Any:
    if isinstance(plan, Sized):
        return plan.make(device)
    if isinstance(plan, list):
        return [make_results(each, device) for each in plan]
    return plan.value
