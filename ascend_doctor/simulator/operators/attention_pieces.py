"""One call of fused attention in heads-first layout, packed sequences taken apart.

Semantics: op-plugin, docs/zh/custom_APIs/torch_npu/torch_npu-npu_fusion_attention.md, shapes and
checks: op_plugin/ops/opapi/FlashAttentionKernelNpuOpApi.cpp.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch

from . import factories
from .table import NotSimulatedError

Tensor = torch.Tensor
COMPRESSED = 2048  # side of the triangle that sparse modes 2, 3 and 4 want
# The values of sparse_mode; 0 is a mask as it is, with the two token counts.
ALL, LEFT_UP, RIGHT_DOWN, BAND, PREFIX, PREFIX_COMPRESSED = 1, 2, 3, 4, 5, 6


@dataclass(frozen=True)
class AttentionProblem:
    """One call's settings, common to the forward and the backward computation."""

    head_num: int
    layout: str
    scale: float
    keep_prob: float
    before: int
    after: int
    sparse_mode: int
    prefix: list[int] | None
    query_ends: list[int] | None
    key_ends: list[int] | None
    pse_type: int
    softmax_layout: str
    seed: int
    offset: int


@dataclass(frozen=True)
class AttentionPiece:
    """One sequence, or a whole batch: q (...,N,Sq,D), k and v (...,N,Sk,D).

    ``masked`` scores take no part, ``survivors`` are the weights that survive the dropout.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    pse: Tensor | None
    masked: Tensor | None
    survivors: Tensor | None


def heads_first(x: Tensor, layout: str, heads: int) -> Tensor:
    """(B,N,S,D), or (N,T,D) for TND, from any layout."""
    if layout == "TND":
        return x.transpose(0, 1)
    if layout in ("BSH", "SBH"):
        x = x.reshape(*x.shape[:2], heads, -1)
        return x.permute(0, 2, 1, 3) if layout == "BSH" else x.permute(1, 2, 0, 3)
    return x if layout == "BNSD" else x.transpose(1, 2)


def from_heads_first(x: Tensor, layout: str) -> Tensor:
    if layout == "TND":
        return x.transpose(0, 1).contiguous()
    if layout == "BSH":
        return x.permute(0, 2, 1, 3).flatten(2).contiguous()
    if layout == "SBH":
        return x.permute(2, 0, 1, 3).flatten(2).contiguous()
    return (x if layout == "BNSD" else x.transpose(1, 2)).contiguous()


def key_heads(problem: AttentionProblem, q: Tensor, k: Tensor) -> int:
    if problem.layout in ("BSH", "SBH"):
        return k.shape[2] // (q.shape[2] // problem.head_num)
    return k.shape[{"BNSD": 1, "BSND": 2, "TND": 1}[problem.layout]]


@lru_cache(maxsize=8)
def _right_of(rows: int, columns: int, diagonal: int) -> Tensor:
    """True where column > row + diagonal; kept, since each layer of each step asks for it."""
    return factories.arange(columns) > factories.arange(rows).unsqueeze(1) + diagonal


def _mask_out(
    problem: AttentionProblem, mask: Tensor | None, batch: int | None, sq: int, sk: int
) -> Tensor | None:
    """True where a score takes no part, to be broadcast to (...,N,Sq,Sk); None: all take part.

    ``batch`` is the number of one sequence, None for all of a batch. Without a mask the sparse
    mode and the two token counts have no effect.
    """
    if mask is None:
        return None
    mode = problem.sparse_mode
    if mode in (LEFT_UP, RIGHT_DOWN, BAND):
        if tuple(mask.shape[-2:]) != (COMPRESSED, COMPRESSED):
            raise RuntimeError(
                f"call aclnnFlashAttentionScore failed, error code is 161002: sparse_mode {mode} "
                f"wants an atten_mask of [2048, 2048], got {list(mask.shape)}"
            )
        shift = 0 if mode == LEFT_UP else sk - sq
        if mode != BAND:
            return _right_of(sq, sk, shift)
        right = _right_of(sq, sk, shift + problem.after)
        return right | ~_right_of(sq, sk, shift - problem.before - 1)
    if mode == PREFIX_COMPRESSED:
        prefixes = factories.tensor(problem.prefix or []).view(-1, 1, 1, 1)
        allowed = prefixes if batch is None else prefixes[batch]
        return _right_of(sq, sk, sk - sq) & (factories.arange(sk) >= allowed)
    dense = mask.bool()
    if dense.dim() == 4 and batch is not None:  # noqa: PLR2004  B or 1, N or 1, Sq, Sk
        dense = dense[batch if dense.shape[0] > 1 else 0]
    dense = dense[..., :sq, :sk]
    if mode == 0:
        if problem.after < sk or problem.before < sq:
            dense = dense | _right_of(sq, sk, problem.after)
            dense = dense | ~_right_of(sq, sk, -problem.before - 1)
    elif mode not in (ALL, PREFIX):
        raise NotSimulatedError("npu_fusion_attention", f"sparse_mode {mode}")
    return dense


def _pse(problem: AttentionProblem, pse: Tensor | None, batch: int | None) -> Tensor | None:
    if pse is None:
        return None
    if problem.pse_type not in (0, 1):
        raise NotSimulatedError("npu_fusion_attention", f"pse_type {problem.pse_type}")
    return pse.float() if batch is None else pse[batch if pse.shape[0] > 1 else 0].float()


def pieces_of(
    problem: AttentionProblem, tensors: tuple[Tensor, Tensor, Tensor], extra: Any
) -> list[AttentionPiece]:
    """The whole batch, or each of the packed sequences.

    In single precision, with key and value repeated for grouped heads.
    """
    q, k, v = tensors
    pse, mask = extra
    heads = key_heads(problem, q, k)
    q = heads_first(q, problem.layout, problem.head_num)
    k, v = (heads_first(x, problem.layout, heads) for x in (k, v))
    group = q.shape[-3] // heads
    if group > 1:
        k, v = (x.repeat_interleave(group, -3) for x in (k, v))
    parts: list[tuple[int | None, Tensor, Tensor, Tensor]] = [(None, q, k, v)]
    if problem.layout == "TND":
        spans = zip(spans_of(problem.query_ends), spans_of(problem.key_ends), strict=True)
        parts = [
            (batch, q[:, a:b], k[:, c:d], v[:, c:d]) for batch, ((a, b), (c, d)) in enumerate(spans)
        ]
    random = None
    if problem.keep_prob < 1:
        random = torch.Generator().manual_seed((problem.seed + (problem.offset << 32)) % 2**63)
    pieces = []
    for batch, first, two, three in parts:
        size = (*first.shape[:-1], two.shape[-2])
        kept_scores = (
            None if random is None else torch.rand(size, generator=random) < problem.keep_prob
        )
        pieces.append(
            AttentionPiece(
                first.float(), two.float(), three.float(), _pse(problem, pse, batch),
                _mask_out(problem, mask, batch, *size[-2:]), kept_scores,
            )
        )  # fmt: skip
    return pieces


def spans_of(ends: list[int] | None) -> list[tuple[int, int]]:
    """Start and end of each sequence; trailing zeros are sequences that take no part."""
    spans, start = [], 0
    for end in ends or []:
        spans.append((start, max(start, end)))
        start = max(start, end)
    return spans


def problem_of(head_num: int, layout: str, named: dict[str, Any]) -> AttentionProblem:
    layout = layout.upper()
    problem = AttentionProblem(
        head_num=head_num,
        layout=layout,
        scale=named.get("scale", named.get("scale_value", 1.0)),
        keep_prob=named.get("keep_prob", 1.0),
        # The operator's own spelling; the gradient has the other one.
        before=named.get("pre_tockens", named.get("pre_tokens", 2147483647)),
        after=named.get("next_tockens", named.get("next_tokens", 2147483647)),
        sparse_mode=named.get("sparse_mode", 0),
        prefix=_numbers(named.get("prefix")),
        query_ends=_numbers(named.get("actual_seq_qlen")),
        key_ends=_numbers(named.get("actual_seq_kvlen")),
        pse_type=named.get("pse_type", 1),
        softmax_layout=named.get("softmax_layout", ""),
        seed=int(_number(named.get("seed", 0))),
        offset=int(_number(named.get("offset", 0))),
    )
    if layout not in ("BSH", "SBH", "BNSD", "BSND", "TND"):
        raise RuntimeError(
            f"The input_layout should be BSH/SBH/BNSD/BSND/TND(case-insensitive), but got {layout}"
        )
    if layout == "TND" and (
        not problem.query_ends or len(problem.query_ends) != len(problem.key_ends or [])
    ):
        raise RuntimeError(
            "the size of actual_seq_qlen and actual_seq_kvlen must be the same and cannot be empty."
        )
    for name in ("query_rope", "key_rope", "dropout_mask"):
        if named.get(name) is not None:
            raise NotSimulatedError("npu_fusion_attention", name)
    return problem


def _numbers(value: Any) -> list[int] | None:
    if isinstance(value, Tensor):
        value = value.tolist()
    return None if value is None else [int(v) for v in value]


def _number(value: Any) -> int:
    return int(value.item()) if isinstance(value, Tensor) else value or 0
