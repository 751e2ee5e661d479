"""Moving tokens to experts and back by a routing map (tokens, experts) instead of indices.

Semantics: the wheel's torch_npu/_op_plugin_docs.py and op-plugin's tests
(test_npu_moe_token_permute_with_routing_map.py, ..._unpermute_with_routing_map.py).
"""

# ruff: noqa: PLR0913, PLR0917  the signatures are those of torch_npu's schemas

import torch

from . import factories
from .kernels import gradients
from .table import implements

Tensor = torch.Tensor


def _choose(routing_map: Tensor) -> tuple[Tensor, Tensor]:
    """Expert and token of each permuted row: experts in order, tokens in order within each."""
    return routing_map.bool().t().nonzero(as_tuple=True)


def _pad_rows(routing_map: Tensor, capacity: int) -> Tensor:
    """Per expert `capacity` tokens: those routed to it first, then others as padding."""
    order = routing_map.to(torch.int8).t().sort(dim=-1, descending=True, stable=True)[1]
    return order[:, :capacity].flatten()


def _pairs(tokens: Tensor, experts: int) -> tuple[Tensor, Tensor]:
    return tokens.long(), factories.arange(experts).repeat_interleave(tokens.numel() // experts)


@implements("npu::npu_moe_token_permute_with_routing_map")
def token_permute_with_routing_map(
    tokens: Tensor, routing_map: Tensor, *, probs: Tensor | None = None,
    num_out_tokens: int | None = None, drop_and_pad: bool = False,
) -> tuple[Tensor, Tensor | None, Tensor]:  # fmt: skip
    """(permuted tokens, permuted probs, sorted_indices).

    Without padding sorted_indices says where each copy of each token went; with padding it is
    the token that each row holds.
    """
    count, experts = routing_map.shape
    if drop_and_pad:
        held = _pad_rows(routing_map, (num_out_tokens or count) // experts)
        rows, columns = _pairs(held, experts)
        sorted_indices = held
    else:
        columns, rows = _choose(routing_map)
        sorted_indices = rows.argsort(stable=True)
    permuted_probs = None if probs is None else probs[rows, columns]
    return tokens.index_select(0, rows), permuted_probs, sorted_indices.int()


@implements("npu::npu_moe_token_permute_with_routing_map_grad")
def token_permute_with_routing_map_grad(
    dy: Tensor, probs_grad: Tensor | None, sorted_indices: Tensor, routing_map: Tensor,
    experts_num: int, tokens_num: int, drop_and_pad: bool,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Gradients of tokens and probs."""
    if drop_and_pad:
        rows, columns = _pairs(sorted_indices, experts_num)
    else:
        columns, rows = _choose(routing_map)
    d_tokens = factories.zeros(tokens_num, dy.shape[1]).index_add_(0, rows, dy.float())
    if probs_grad is None:
        return d_tokens.to(dy.dtype), None
    d_probs = probs_grad.new_zeros(tokens_num, experts_num)
    return d_tokens.to(dy.dtype), d_probs.index_put_((rows, columns), probs_grad)


@implements("npu::_npu_moe_token_unpermute_with_routing_map")
def token_unpermute_with_routing_map_saving(
    permuted: Tensor, sorted_indices: Tensor, restore_shape: list[int], *,
    probs: Tensor | None = None, routing_map: Tensor | None = None, drop_and_pad: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:  # fmt: skip
    """(tokens, out_index, permuted_token_id, permuted probs).

    Row out_index[i] of the permuted tokens belongs to token permuted_token_id[i].
    """
    tokens, out_index, used = _origin(sorted_indices, routing_map, restore_shape[0], drop_and_pad)
    rows = permuted.float().index_select(0, out_index.long())
    permuted_probs = None
    if probs is not None:
        permuted_probs = used(probs)
        rows = rows * permuted_probs.float().index_select(
            0, out_index.long() if drop_and_pad else factories.arange(out_index.numel())
        ).unsqueeze(1)
    total = factories.zeros(restore_shape[0], permuted.shape[1]).index_add_(0, tokens.long(), rows)
    return total.to(permuted.dtype), out_index.int(), tokens.int(), permuted_probs


def _origin(
    sorted_indices: Tensor, routing_map: Tensor | None, tokens: int, drop_and_pad: bool
) -> tuple[Tensor, Tensor, object]:
    if drop_and_pad:
        held, out_index = sorted_indices.sort(stable=True)

        def by_row(probs: Tensor) -> Tensor:
            rows, columns = _pairs(sorted_indices, probs.shape[1])
            return probs[rows, columns]

        return held, out_index, by_row
    if routing_map is not None:
        held = routing_map.bool().nonzero(as_tuple=True)[0]
    else:
        held = factories.arange(tokens).repeat_interleave(sorted_indices.numel() // tokens)
    return held, sorted_indices, lambda probs: probs.masked_select(routing_map.bool())


@implements("npu::npu_moe_token_unpermute_with_routing_map")
def token_unpermute_with_routing_map(
    permuted: Tensor, sorted_indices: Tensor, restore_shape: list[int], *,
    probs: Tensor | None = None, routing_map: Tensor | None = None, drop_and_pad: bool = False,
) -> Tensor:  # fmt: skip
    return token_unpermute_with_routing_map_saving(
        permuted, sorted_indices, restore_shape,
        probs=probs, routing_map=routing_map, drop_and_pad=drop_and_pad,
    )[0]  # fmt: skip


@implements("npu::npu_moe_token_unpermute_with_routing_map_grad")
def token_unpermute_with_routing_map_grad(
    dy: Tensor, out_index: Tensor, permuted_token_id: Tensor, routing_map: Tensor | None,
    permuted_tokens: Tensor | None, probs: Tensor | None, drop_and_pad: bool,
    restore_shape: list[int],
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Gradients of the permuted tokens and of probs.

    Without padding torch_npu passes sorted_indices for both indices; the routing map then tells
    the tokens (op-plugin, derivatives.yaml).
    """
    sorted_indices = out_index
    if drop_and_pad:
        sorted_indices = torch.empty_like(out_index).scatter_(
            0, out_index.long(), permuted_token_id
        )
    weighted = probs is not None and permuted_tokens is not None
    rows = permuted_tokens if weighted else dy.new_zeros(out_index.numel(), dy.shape[1])

    def unpermute(rows: Tensor, weights: Tensor | None = None) -> Tensor:
        return token_unpermute_with_routing_map(
            rows, sorted_indices, restore_shape,
            probs=weights, routing_map=routing_map, drop_and_pad=drop_and_pad,
        )  # fmt: skip

    if not weighted:
        return gradients(unpermute, dy, rows)[0], None
    d_rows, d_probs = gradients(unpermute, dy, rows, probs)
    return d_rows, d_probs.to(dy.dtype)
