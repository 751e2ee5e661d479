"""Fused attention of torch_npu: npu_fusion_attention and its gradients.

Semantics: op-plugin, docs/zh/custom_APIs/torch_npu/torch_npu-npu_fusion_attention.md, shapes and
checks: op_plugin/ops/opapi/FlashAttentionKernelNpuOpApi.cpp.
"""

from typing import Any

import torch

from . import factories
from .attention_pieces import (
    AttentionPiece,
    AttentionProblem,
    from_heads_first,
    heads_first,
    key_heads,
    pieces_of,
    problem_of,
    spans_of,
)
from .generators import reserve
from .table import implements

Tensor = torch.Tensor
LANES = 8  # softmax_max and softmax_sum repeat each value (SOFTMAXMAX_LAST_DIMSHAPE)


def _scores(problem: AttentionProblem, piece: AttentionPiece) -> Tensor:
    scores = piece.q @ piece.k.transpose(-1, -2)
    if piece.pse is not None and problem.pse_type == 1:
        scores = scores + piece.pse
    scores = scores * problem.scale
    if piece.pse is not None and problem.pse_type == 0:
        scores = scores + piece.pse
    return scores if piece.masked is None else scores.masked_fill(piece.masked, -torch.inf)


def forward(
    problem: AttentionProblem,
    tensors: tuple[Tensor, Tensor, Tensor],
    extra: Any,
    sink: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Attention, softmax maximum and softmax sum; a row with all scores masked gives zeros."""
    outputs, maxima, sums = [], [], []
    for piece in pieces_of(problem, tensors, extra):
        scores = _scores(problem, piece)
        if scores.shape[-1]:
            # Of a row that is masked whole the maximum is -inf, and -inf - -inf no number.
            top = scores.amax(-1, keepdim=True).clamp(min=torch.finfo(torch.float32).min)
        else:
            top = scores.new_zeros(*scores.shape[:-1], 1)
        if sink is not None:
            top = torch.maximum(top, sink.float().view(-1, 1, 1))
        weights = (scores - top).exp()
        total = weights.sum(-1, keepdim=True)
        if sink is not None:
            total = total + (sink.float().view(-1, 1, 1) - top).exp()
        weights = weights / total.masked_fill(total == 0, 1)
        if piece.survivors is not None:
            weights = weights * piece.survivors / problem.keep_prob
        outputs.append(weights @ piece.v)
        maxima.append(top)
        sums.append(total)
    if problem.layout == "TND":
        joined = [_pad(torch.cat(x, 1), tensors[0].shape[0]) for x in (outputs, maxima, sums)]
    else:
        joined = [x[0] for x in (outputs, maxima, sums)]
    output, top, total = joined
    output = from_heads_first(output.to(tensors[0].dtype), problem.layout)
    return output, _softmax_out(problem, top), _softmax_out(problem, total)


def _pad(x: Tensor, tokens: int) -> Tensor:
    """Tokens of sequences that take no part give zeros."""
    return torch.cat([x, x.new_zeros(x.shape[0], tokens - x.shape[1], x.shape[2])], 1)


def _softmax_out(problem: AttentionProblem, value: Tensor) -> Tensor:
    """(B,N,S,8); for TND (T,N,8), its bytes in the order N,T,8 unless softmax_layout is TND."""
    value = value.expand(*value.shape[:-1], LANES).contiguous()
    if problem.layout != "TND":
        return value
    if problem.softmax_layout == "TND":
        return value.transpose(0, 1).contiguous()
    return value.reshape(value.shape[1], value.shape[0], LANES)


def _softmax_in(problem: AttentionProblem, value: Tensor, heads: int) -> list[Tensor]:
    """Per piece (...,N,S,1), the reverse of `_softmax_out`."""
    value = value[..., :1]
    if problem.layout != "TND":
        return [value]
    if problem.softmax_layout == "TND":
        value = value.transpose(0, 1)
    else:
        value = value.reshape(heads, -1, 1)
    return [value[:, a:b] for a, b in spans_of(problem.query_ends)]


def backward(
    problem: AttentionProblem,
    tensors: tuple[Tensor, ...],
    extra: Any,
    saved: tuple[Tensor, Tensor, Tensor],
    sink: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]:
    """Gradients of query, key, value, pse and sink.

    The given softmax maximum, sum and output are used, not recomputed: ring attention passes
    those of the whole ring.
    """
    q, k, v, dy = tensors
    heads = key_heads(problem, q, k)
    pieces = pieces_of(problem, (q, k, v), extra)
    tops = _softmax_in(problem, saved[0], problem.head_num)
    totals = _softmax_in(problem, saved[1], problem.head_num)
    both = [heads_first(x, problem.layout, problem.head_num).float() for x in (dy, saved[2])]
    if problem.layout == "TND":
        spans = spans_of(problem.query_ends)
        pairs = [(both[0][:, a:b], both[1][:, a:b]) for a, b in spans]
    else:
        pairs = [(both[0], both[1])]
    grads: list[list[Tensor]] = [[], [], [], [], []]
    for piece, top, total, (gradient, output) in zip(pieces, tops, totals, pairs, strict=True):
        weights = (_scores(problem, piece) - top).exp() / total.masked_fill(total == 0, 1)
        share = 1.0 if piece.survivors is None else piece.survivors / problem.keep_prob
        # As in FlashAttention (Dao et al. 2022, algorithm 4): the sum over keys without the keys.
        delta = (gradient * output).sum(-1, keepdim=True)
        d_scores = weights * ((gradient @ piece.v.transpose(-1, -2)) * share - delta)
        grads[0].append(d_scores @ piece.k * problem.scale)
        grads[1].append(_sum_groups(d_scores.transpose(-1, -2) @ piece.q * problem.scale, heads))
        grads[2].append(_sum_groups((weights * share).transpose(-1, -2) @ gradient, heads))
        grads[3].append(d_scores * (problem.scale if problem.pse_type == 1 else 1.0))
        if sink is not None:
            at_sink = (sink.float().view(-1, 1, 1) - top).exp() / total
            grads[4].append(-(at_sink * delta).sum((-2, -1)).view(-1, problem.head_num).sum(0))
    results = []
    for grad, like in zip(grads[:3], (q, k, v), strict=True):
        packed = problem.layout == "TND"
        joined = _pad(torch.cat(grad, 1), like.shape[0]) if packed else grad[0]
        results.append(from_heads_first(joined.to(like.dtype), problem.layout))
    pse = extra[0]
    d_pse = None
    if pse is not None:
        whole = torch.stack(grads[3]) if packed else grads[3][0]  # (B,N,Sq,Sk)
        d_pse = whole.sum_to_size(pse.shape).to(pse.dtype)
    d_sink = None if sink is None else torch.stack(grads[4]).sum(0).to(sink.dtype)
    return results[0], results[1], results[2], d_pse, d_sink


def _sum_groups(x: Tensor, heads: int) -> Tensor:
    """The sum over the query heads that share a key head."""
    count = x.shape[-3]
    return x if count == heads else x.unflatten(-3, (heads, count // heads)).sum(-3)


_POSITIONAL = (
    "pse", "padding_mask", "atten_mask", "scale", "keep_prob", "pre_tockens", "next_tockens",
    "inner_precise", "prefix", "actual_seq_qlen", "actual_seq_kvlen", "sparse_mode",
    "gen_mask_parallel", "sync", "softmax_layout", "sink", "dropout_mask", "seed", "offset",
)  # fmt: skip


def _attend(
    q: Tensor, k: Tensor, v: Tensor, head_num: int, input_layout: str, *rest: Any, **named: Any
) -> tuple[Any, ...]:
    named |= dict(zip(_POSITIONAL, rest, strict=False))
    if named.get("keep_prob", 1.0) < 1 and not named.get("seed"):
        named["seed"], named["offset"] = reserve(10)
    problem = problem_of(head_num, input_layout, named)
    extra = (named.get("pse"), named.get("atten_mask"))
    results = forward(problem, (q, k, v), extra, named.get("sink"))
    return (*results, q.new_empty(0), problem.seed, problem.offset)


@implements("npu::npu_fusion_attention", "npu::npu_fusion_attention_v2")
def fusion_attention(
    q: Tensor, k: Tensor, v: Tensor, head_num: int, input_layout: str, *rest: Any, **named: Any
) -> tuple[Any, ...]:
    """(attention, softmax_max, softmax_sum, reserved, seed, offset, elements of the mask)."""
    results = _attend(q, k, v, head_num, input_layout, *rest, **named)
    ends = named.get("actual_seq_qlen") or (rest[9] if len(rest) > 9 else None)  # noqa: PLR2004
    if input_layout.upper() == "TND":
        others = named.get("actual_seq_kvlen") or rest[10]
        pairs = zip(spans_of(ends), spans_of(others), strict=True)
        elements = sum((b - a) * (d - c) for (a, b), (c, d) in pairs) * head_num
    else:
        top = results[1]
        keys = k.shape[{"BSH": 1, "SBH": 0, "BNSD": 2, "BSND": 1}[input_layout.upper()]]
        elements = top[..., 0].numel() * keys
    return (*results, elements)


@implements("npu::npu_fusion_attention_v3")
def fusion_attention_v3(
    q: Tensor, k: Tensor, v: Tensor, head_num: int, input_layout: str, *rest: Any, **named: Any
) -> tuple[Any, ...]:
    """As the first version, with seed and offset as tensors."""
    *results, seed, offset = _attend(q, k, v, head_num, input_layout, *rest, **named)
    return (*results, factories.tensor([seed]), factories.tensor([offset]))


@implements("npu::npu_fusion_attention_grad", "npu::npu_fusion_attention_grad_v3")
def fusion_attention_grad(
    q: Tensor, k: Tensor, v: Tensor, dy: Tensor, head_num: int, input_layout: str, **named: Any
) -> tuple[Tensor, ...]:
    """Gradients of query, key, value, pse and sink; the last two empty where there is none."""
    problem = problem_of(head_num, input_layout, named)
    saved = (named["softmax_max"], named["softmax_sum"], named["attention_in"])
    extra = (named.get("pse"), named.get("atten_mask"))
    dq, dk, dv, d_pse, d_sink = backward(problem, (q, k, v, dy), extra, saved, named.get("sink"))
    nothing = q.new_empty(0)
    return dq, dk, dv, nothing if d_pse is None else d_pse, nothing if d_sink is None else d_sink


@implements("npu::npu_fusion_attention_grad_v2")
def fusion_attention_grad_v2(*args: Any, **named: Any) -> tuple[Tensor, ...]:
    """As the first version, with empty gradients of the rope parts before that of sink."""
    *gradients, d_sink = fusion_attention_grad(*args, **named)
    nothing = args[0].new_empty(0)
    return (*gradients, nothing, nothing, d_sink)
