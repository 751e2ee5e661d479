"""Casts of torch_npu. The simulated device stores every tensor in the plain format ND.

A cast to a private format (FRACTAL_NZ and others) therefore copies and the copy's format reads
as ND; values and shapes are those of the device.
"""

# ruff: noqa: ARG001  the signatures are those of torch_npu's schemas

from __future__ import annotations

import torch

from .table import implements

Tensor = torch.Tensor


@implements("npu::npu_dtype_cast")
def dtype_cast(x: Tensor, dtype: int, input_dtype: int | None = None) -> Tensor:
    return torch.ops.aten._to_copy(x, dtype=dtype)  # noqa: SLF001


@implements("npu::_npu_dtype_cast", "npu::_npu_dtype_cast_backward")
def dtype_cast_plain(x: Tensor, dtype: int) -> Tensor:
    return torch.ops.aten._to_copy(x, dtype=dtype)  # noqa: SLF001


@implements("npu::npu_dtype_cast_backward")
def dtype_cast_backward(
    grad: Tensor, dtype: int, grad_dtype: int | None = None, input_dtype: int | None = None
) -> Tensor:
    return torch.ops.aten._to_copy(grad, dtype=dtype)  # noqa: SLF001


@implements("npu::npu_dtype_cast_")
def dtype_cast_(x: Tensor, source: Tensor) -> Tensor:
    return x.copy_(source)


@implements(
    "npu::_npu_format_cast",
    "npu::_npu_format_cast.aclnn",
    "npu::_npu_format_cast.input_dtype",
)
def format_cast(x: Tensor, *_formats: object, **_types: object) -> Tensor:
    """What npu_format_cast, which stays torch_npu's own, calls with autograd on."""
    return x.clone()


@implements("npu::npu_format_cast_", "npu::npu_format_cast_.acl_format")
def format_cast_(x: Tensor, *_formats: object, **_types: object) -> Tensor:
    return x


@implements("npu::copy_memory_")
def copy_memory_(x: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    return x.copy_(source)
