"""Mixture-of-experts operators of torch_npu: routing, and moving tokens to experts and back.

Semantics: the wheel's torch_npu/_op_plugin_docs.py and op-plugin's tests (test_npu_moe_*.py).
`sorted_indices[i]` is the row of the permuted tokens that holds copy i of the tokens, copies of
one token being neighbours: permuted[sorted_indices[i]] = tokens[i // top_k].
"""

# ruff: noqa: ARG001, PLR0913, PLR0917  the signatures are those of torch_npu's schemas

import torch

from . import factories
from .kernels import gradients
from .table import implements

Tensor = torch.Tensor


def _refuse_padding(padded_mode: bool, name: str) -> None:
    if padded_mode:
        raise RuntimeError(f"{name}: padded_mode currently supports only False")


def _rows(permuted: Tensor, indices: Tensor) -> Tensor:
    """The rows at `indices`, zeros for those dropped by `num_out_tokens`."""
    held = indices < permuted.shape[0]
    rows = permuted.index_select(0, torch.where(held, indices, 0).long())
    return rows * held.unsqueeze(1).to(rows.dtype)


@implements("npu::npu_moe_token_permute")
def token_permute(
    tokens: Tensor, indices: Tensor, num_out_tokens: int | None = None, padded_mode: bool = False
) -> tuple[Tensor, Tensor]:
    """Tokens (T,H) in the order of their experts `indices` (T,K) or (T,)."""
    _refuse_padding(padded_mode, "npu_moe_token_permute")
    top_k = 1 if indices.dim() == 1 else indices.shape[1]
    order = indices.flatten().argsort(stable=True)
    order_left = order[:num_out_tokens] if num_out_tokens else order
    return tokens.index_select(0, order_left // top_k), order.argsort(stable=True).int()


@implements("npu::npu_moe_token_permute_grad_v2")
def token_permute_grad_v2(
    dy: Tensor, sorted_indices: Tensor, tokens: int, dtype: torch.dtype | int, top_k: int,
    padded_mode: bool = False,
) -> Tensor:  # fmt: skip
    _refuse_padding(padded_mode, "npu_moe_token_permute_grad")
    rows = _rows(dy, sorted_indices).float().view(tokens, top_k, -1)
    return rows.sum(1).to(dy.dtype)


@implements("npu::npu_moe_token_permute_grad")
def token_permute_grad(
    tokens: Tensor, dy: Tensor, indices: Tensor, sorted_indices: Tensor, padded_mode: bool = False
) -> Tensor:
    top_k = 1 if indices.dim() == 1 else indices.shape[1]
    count = tokens.shape[0]
    return token_permute_grad_v2(dy, sorted_indices, count, tokens.dtype, top_k, padded_mode)


@implements("npu::_npu_moe_token_unpermute")
def token_unpermute_saving(
    permuted: Tensor, sorted_indices: Tensor, probs: Tensor | None = None,
    padded_mode: bool = False, restore_shape: list[int] | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Tokens summed over their copies, weighted by `probs` (T,K); and what backward needs."""
    _refuse_padding(padded_mode, "npu_moe_token_unpermute")
    top_k = 1 if probs is None else probs.shape[1]
    rows = _rows(permuted, sorted_indices).float().view(-1, top_k, permuted.shape[1])
    if probs is not None:
        rows = rows * probs.float().unsqueeze(-1)
    return rows.sum(1).to(permuted.dtype), permuted


@implements("npu::npu_moe_token_unpermute")
def token_unpermute(
    permuted: Tensor, sorted_indices: Tensor, probs: Tensor | None = None,
    padded_mode: bool = False, restore_shape: list[int] | None = None,
) -> Tensor:  # fmt: skip
    return token_unpermute_saving(permuted, sorted_indices, probs, padded_mode, restore_shape)[0]


@implements("npu::npu_moe_token_unpermute_grad")
def token_unpermute_grad(
    permuted: Tensor, dy: Tensor, sorted_indices: Tensor, probs: Tensor | None = None,
    padded_mode: bool = False, restore_shape: list[int] | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Gradients of the permuted tokens and of probs (empty without probs)."""
    of = (permuted,) if probs is None else (permuted, probs)
    grads = gradients(
        lambda rows, *weights: token_unpermute(rows, sorted_indices, *weights), dy, *of
    )
    return grads[0], dy.new_empty(0) if probs is None else grads[1]


@implements("npu::npu_moe_token_unpermute_grad_v2")
def token_unpermute_grad_v2(
    dy: Tensor, sorted_indices: Tensor, rows: int, dtype: torch.dtype | int,
    probs: Tensor | None = None, padded_mode: bool = False,
    restore_shape: list[int] | None = None, permuted_tokens: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    permuted = dy.new_empty(rows, dy.shape[1]) if permuted_tokens is None else permuted_tokens
    return token_unpermute_grad(permuted, dy, sorted_indices, probs, padded_mode, restore_shape)


@implements("npu::npu_moe_gating_top_k_softmax")
def gating_top_k_softmax(
    x: Tensor, finished: Tensor | None = None, k: int = 1
) -> tuple[Tensor, Tensor, Tensor]:
    """(y, expert_idx, row_idx); rows that are finished get the number of experts as index."""
    y, experts = x.float().softmax(-1).sort(dim=-1, descending=True, stable=True)
    y, experts = y[..., :k], experts[..., :k]
    if finished is not None:
        experts = experts.masked_fill(finished.unsqueeze(-1), x.shape[-1])
    rows = y.numel() // k
    row_idx = factories.arange(y.numel()).view(k, rows).t().reshape(y.shape)
    return y.to(x.dtype), experts.int(), row_idx.int()
