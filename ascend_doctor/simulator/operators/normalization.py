"""RMS normalisation of torch_npu, computed in single precision; rstd is single precision."""

import torch

from .table import implements

Tensor = torch.Tensor


def _inner(gamma: Tensor) -> list[int]:
    """The dimensions that are normalised: as many last ones as gamma has."""
    return list(range(-gamma.dim(), 0))


def _normalise(
    x: Tensor, gamma: Tensor, epsilon: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    x32 = x.float()
    rstd = torch.rsqrt(x32.square().mean(_inner(gamma), keepdim=True) + epsilon)
    return (x32 * rstd * gamma.float()).to(dtype), rstd


@implements("npu::npu_rms_norm")
def rms_norm(x: Tensor, gamma: Tensor, epsilon: float = 1e-6) -> tuple[Tensor, Tensor]:
    """(y, rstd); rstd has size 1 in each normalised dimension."""
    return _normalise(x, gamma, epsilon, x.dtype)


@implements("npu::npu_rms_norm_backward")
def rms_norm_backward(dy: Tensor, x: Tensor, gamma: Tensor, rstd: Tensor) -> tuple[Tensor, Tensor]:
    """(dx, dgamma); dgamma is single precision (RmsNormBackwardKernelOpApi.cpp)."""
    unit = x.float() * rstd
    dy32 = dy.float()
    weighted = dy32 * gamma.float()
    dx = rstd * (weighted - unit * (weighted * unit).mean(_inner(gamma), keepdim=True))
    return dx.to(x.dtype), (dy32 * unit).sum_to_size(gamma.shape)


@implements("npu::npu_gemma_rms_norm")
def gemma_rms_norm(x: Tensor, gamma: Tensor, epsilon: float = 1e-6) -> tuple[Tensor, Tensor]:
    """As `rms_norm`, with 1 added to gamma (op-plugin, test_npu_gemma_rms_norm.py)."""
    return _normalise(x, gamma.float() + 1, epsilon, x.dtype)


@implements("npu::npu_add_rms_norm", "npu::npu_add_rms_norm_v2_functional")
def add_rms_norm(
    x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float = 1e-6
) -> tuple[Tensor, Tensor, Tensor]:
    """(y, rstd, x1 + x2)."""
    total = x1 + x2
    y, rstd = _normalise(total, gamma, epsilon, x1.dtype)
    return y, rstd, total


@implements("npu::npu_add_rms_norm_cast")
def add_rms_norm_cast(
    x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float = 1e-6
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(y in single precision, y, rstd, x1 + x2)."""
    y, rstd, total = add_rms_norm(x1, x2, gamma, epsilon)
    return y.float(), y, rstd, total
