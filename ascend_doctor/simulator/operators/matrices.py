"""Matrix products of torch_npu: grouped matmul, and the gradients that only NPUs register."""

# ruff: noqa: PLR0913  the signatures are those of torch_npu's schemas

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  its usual name

from . import factories
from .table import NotSimulatedError, implements

Tensor = torch.Tensor
ACTIVATIONS = {
    0: lambda x: x,
    1: F.relu,
    2: lambda x: F.gelu(x, approximate="tanh"),
    4: lambda x: x * torch.sigmoid(1.702 * x),
    5: F.silu,
}  # act_type of npu_grouped_matmul
BY_ROWS, BY_INNER = 0, 2  # group_type: the axis m or k is divided
implements("npu::npu_linear")(F.linear)
implements("npu::npu_bmmV2")(lambda a, b, _output_sizes: a @ b)


@implements("aten::matmul_backward")
def matmul_backward(dy: Tensor, a: Tensor, b: Tensor, mask: list[bool]) -> tuple[Any, Any]:
    """Gradients of `torch.matmul(a, b)`, with its broadcasting and its one-dimensional cases."""
    a2 = a.unsqueeze(0) if a.dim() == 1 else a
    b2 = b.unsqueeze(1) if b.dim() == 1 else b
    if a.dim() == 1:
        dy = dy.unsqueeze(-1 if b.dim() == 1 else -2)
    if b.dim() == 1:
        dy = dy.unsqueeze(-1)
    d_a = d_b = None
    if mask[0]:
        d_a = (dy @ b2.transpose(-1, -2)).sum_to_size(a2.shape).view(a.shape)
    if mask[1]:
        if b2.dim() == 2 and a2.dim() > 2:  # noqa: PLR2004  one product in place of a batch
            d_b = a2.flatten(0, -2).t() @ dy.flatten(0, -2)
        else:
            d_b = (a2.transpose(-1, -2) @ dy).sum_to_size(b2.shape)
        d_b = d_b.view(b.shape)
    return d_a, d_b


@implements("npu::matmul_double_backward")
def matmul_double_backward(
    d_a: Tensor | None, d_b: Tensor | None, dy: Tensor, a: Tensor, b: Tensor, mask: list[bool]
) -> tuple[Any, Any, Any]:
    """Gradients of `matmul_backward` for dy, a and b."""
    d_dy = grad_a = grad_b = None
    if mask[0]:
        parts = [d_a @ b if d_a is not None else None, a @ d_b if d_b is not None else None]
        terms = [p for p in parts if p is not None]
        d_dy = sum(terms[1:], terms[0]) if terms else None
    if mask[1] and d_b is not None:
        grad_a = matmul_backward(dy, a, d_b, [True, False])[0]
    if mask[2] and d_a is not None:
        grad_b = matmul_backward(dy, d_a, b, [False, True])[1]
    return d_dy, grad_a, grad_b


@implements("npu::npu_linear_backward")
def linear_backward(dy: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    return dy @ weight, dy.flatten(0, -2).t() @ x.flatten(0, -2)


@implements("npu::npu_bmm_v2_mat1_backward")
def bmm_v2_mat1_backward(dy: Tensor, _a: Tensor, b: Tensor, size: list[int]) -> Tensor:
    return (dy @ b.transpose(-1, -2)).sum_to_size(size)


@implements("npu::npu_bmm_v2_mat2_backward")
def bmm_v2_mat2_backward(dy: Tensor, a: Tensor, _b: Tensor, size: list[int]) -> Tensor:
    return (a.transpose(-1, -2) @ dy).sum_to_size(size)


def _ends(group_list: Any, list_type: int) -> list[int] | None:
    """Where each group ends; list types: 0 ends, 1 sizes, 2 pairs of group and size."""
    if group_list is None:
        return None
    ends = group_list if isinstance(group_list, Tensor) else factories.tensor(group_list)
    if list_type == 2:  # noqa: PLR2004
        raise NotSimulatedError("npu_grouped_matmul", "group_list_type 2")
    return (ends.cumsum(0) if list_type == 1 else ends).tolist()


def _split(x: Tensor, ends: list[int], dim: int) -> list[Tensor]:
    starts = [0, *ends[:-1]]
    return [x.narrow(dim, a, b - a) for a, b in zip(starts, ends, strict=True)]


@implements("npu::npu_grouped_matmul", "npu::npu_grouped_matmul.List")
def grouped_matmul(
    x: list[Tensor], weight: list[Tensor], *, bias: list[Tensor] | None = None,
    group_list: Any = None, split_item: int | None = 0, group_type: int | None = None,
    group_list_type: int | None = 0, act_type: int | None = 0,
    output_dtype: torch.dtype | int | None = None, **others: Any,
) -> list[Tensor]:  # fmt: skip
    """Products x_i @ weight_i + bias_i, one tensor each, or all in one for split_item 2 and 3.

    group_type 0 divides the rows of x, 2 the columns of x and the rows of weight; both take the
    groups from group_list (op-plugin, torch_npu-npu_grouped_matmul.md). Quantisation is not
    simulated.
    """
    for name, value in others.items():
        if value is not None:
            raise NotSimulatedError("npu_grouped_matmul", name)
    dtype = x[0].dtype if output_dtype is None else output_dtype
    ends = _ends(group_list, group_list_type or 0)
    if ends is not None and group_type == BY_INNER:
        left = _split(x[0], ends, 1) if len(x) == 1 else x
        right = _split(weight[0], ends, 0) if len(weight) == 1 else weight
    else:
        whole = weight[0] if len(weight) == 1 else None
        right = list(whole) if whole is not None and whole.dim() == 3 else weight  # noqa: PLR2004
        left = _split(x[0], ends, 0) if len(x) == 1 and ends is not None else x
    biases: Any = [None] * len(right)
    if bias:
        biases = list(bias[0]) if len(bias) == 1 and len(right) > 1 else bias
    results = []
    for first, two, three in zip(left, right, biases, strict=True):
        product = first @ two
        product = product if three is None else product + three
        results.append(ACTIVATIONS[act_type or 0](product))
    if (split_item or 0) > 1:
        joined = torch.stack(results) if group_type == BY_INNER else torch.cat(results)
        if group_type != BY_INNER and joined.shape[0] < x[0].shape[0]:
            rest = x[0].shape[0] - joined.shape[0]
            joined = torch.cat([joined, joined.new_zeros(rest, joined.shape[1])])
        results = [joined]
    return [r.to(dtype) for r in results]


@implements("npu::npu_grouped_matmul_add_")
def grouped_matmul_add_(
    total: Tensor, x: Tensor, weight: Tensor, group_list: Tensor, *, transpose_x: bool = True,
    transpose_weight: bool = False, group_type: int = BY_INNER, group_list_type: int | None = 0,
) -> Tensor:  # fmt: skip
    """Add to `total` the products of each group's rows: x_i.T @ weight_i."""
    if not transpose_x or transpose_weight or group_type != BY_INNER:
        options = f"{transpose_x=}, {transpose_weight=}, {group_type=}"
        raise NotSimulatedError("npu_grouped_matmul_add", options)
    ends = _ends(group_list, group_list_type or 0) or []
    pairs = zip(_split(x, ends, 0), _split(weight, ends, 0), strict=True)
    products = torch.stack([first.float().t() @ two.float() for first, two in pairs])
    return total.add_(products.view(total.shape).to(total.dtype))


@implements("npu::npu_grouped_matmul_add")
def grouped_matmul_add(total: Tensor, *args: Any, **named: Any) -> Tensor:
    return grouped_matmul_add_(total.clone(), *args, **named)


@implements("atb::_npu_matmul_add_fp32")
def matmul_add_fp32(x: Tensor, weight: Tensor, total: Tensor) -> None:
    """Add x.T @ weight to `total` in single precision."""
    total.add_(x.float().flatten(0, -2).t() @ weight.float().flatten(0, -2))
