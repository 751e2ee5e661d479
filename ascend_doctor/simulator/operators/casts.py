"""Casts of torch_npu. The simulated device stores every tensor in the plain format ND.

A cast to a private format (FRACTAL_NZ and others) therefore copies and the copy's format reads
as ND; values and shapes are those of the device.
"""

import torch

from .table import implements

Tensor = torch.Tensor


@implements(
    "npu::npu_dtype_cast",
    "npu::npu_dtype_cast_backward",
    "npu::_npu_dtype_cast",
    "npu::_npu_dtype_cast_backward",
)
def dtype_cast(x: Tensor, dtype: int, *_types: object, **_named: object) -> Tensor:
    return torch.ops.aten._to_copy(x, dtype=dtype)


@implements("npu::npu_dtype_cast_", "npu::copy_memory_")
def copy_memory_(x: Tensor, source: Tensor, *_waits: object, **_named: object) -> Tensor:
    return x.copy_(source)


@implements(
    "npu::_npu_format_cast", "npu::_npu_format_cast.aclnn", "npu::_npu_format_cast.input_dtype"
)
def format_cast(x: Tensor, *_formats: object, **_types: object) -> Tensor:
    """What npu_format_cast, which stays torch_npu's own, calls with autograd on."""
    return x.clone()


@implements("npu::npu_format_cast_", "npu::npu_format_cast_.acl_format")
def format_cast_(x: Tensor, *_formats: object, **_types: object) -> Tensor:
    return x
