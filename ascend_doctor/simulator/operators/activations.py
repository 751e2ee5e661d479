"""Activations and rotary embedding of torch_npu."""

import torch
import torch.nn.functional as F  # noqa: N812  its usual name

from .kernels import gradients
from .table import NotSimulatedError, implements

Tensor = torch.Tensor
aten = torch.ops.aten
implements("npu::npu_silu")(F.silu)
implements("npu::npu_silu_")(lambda x: F.silu(x, inplace=True))
implements("npu::npu_silu_backward")(lambda dy, x, _y: aten.silu_backward(dy, x))
implements("npu::npu_gelu")(F.gelu)
implements("npu::npu_gelu_backward")(aten.gelu_backward)


@implements("npu::npu_swiglu")
def swiglu(x: Tensor, dim: int = -1) -> Tensor:
    """silu(first half) * second half along `dim`, in single precision."""
    gate, value = x.float().chunk(2, dim)
    return (F.silu(gate) * value).to(x.dtype)


@implements("npu::npu_swiglu_backward")
def swiglu_backward(dy: Tensor, x: Tensor, dim: int = -1) -> Tensor:
    return gradients(lambda x: swiglu(x, dim), dy, x)[0]


@implements("npu::npu_fast_gelu", "npu::fast_gelu")
def fast_gelu(x: Tensor) -> Tensor:
    """The product of x and sigmoid(1.702 x), written as op-plugin's test_fast_gelu.py does."""
    return x * torch.sigmoid(1.702 * x)


implements("npu::npu_fast_gelu_backward")(lambda dy, x: gradients(fast_gelu, dy, x)[0])


def _rotate(x: Tensor, mode: str) -> Tensor:
    """The quarter turn of each pair: (-x2, x1), pairs being halves or neighbours."""
    if mode == "half":
        first, two = x.chunk(2, -1)
        return torch.cat((-two, first), -1)
    if mode == "interleave":
        return torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)
    raise RuntimeError(
        f"The rotary_mode of npu_rotary_mul should be half or interleave, but got {mode}"
    )


@implements("npu::npu_rotary_mul")
def rotary_mul(
    x: Tensor, cos: Tensor, sin: Tensor, rotary_mode: str = "half", rotate: Tensor | None = None
) -> Tensor:
    """The sum x * cos + rotate(x) * sin (op-plugin, torch_npu-npu_rotary_mul.md)."""
    x32 = x.float()
    turned = _rotate(x32, rotary_mode) if rotate is None else x32 @ rotate.float()
    return (x32 * cos.float() + turned * sin.float()).to(x.dtype)


@implements("npu::npu_rotary_mul_backward")
def rotary_mul_backward(
    dy: Tensor, x: Tensor, cos: Tensor, sin: Tensor, rotary_mode: str = "half"
) -> tuple[Tensor, Tensor, Tensor]:
    dx, d_cos, d_sin = gradients(lambda *of: rotary_mul(*of, rotary_mode), dy, x, cos, sin)
    return dx, d_cos.to(x.dtype), d_sin.to(x.dtype)


@implements("npu::npu_apply_rotary_pos_emb")
def apply_rotary_pos_emb(
    query: Tensor, key: Tensor, cos: Tensor, sin: Tensor, layout: str = "BSND",
    rotary_mode: str = "half",
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Rotary embedding of query and key; only layout BSND exists."""
    if layout != "BSND":
        raise NotSimulatedError("npu_apply_rotary_pos_emb", f"layout {layout}")
    return rotary_mul(query, cos, sin, rotary_mode), rotary_mul(key, cos, sin, rotary_mode)
