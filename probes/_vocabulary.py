"""Log-probabilities and entropy of logits whose vocabulary is sharded over ranks.

Each function exists in the careful form and in forms that write into what autograd has saved, as
trainers have shipped them. Import it after torch.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

IN_PLACE = ("", "entropy", "log-probability")


class LogProbability(torch.autograd.Function):
    """Log-probabilities of labels; ``chunk`` tokens at a time, None for all at once.

    All at once keeps the softmax, and its backward needs no collective. In chunks only the logits
    are kept, and the softmax is computed again. ``in_place`` writes the gradient into the logits.
    """

    @staticmethod
    def forward(
        ctx: Any, logits: Any, labels: Any, first: int, chunk: int | None, in_place: bool
    ) -> Any:
        here, index = find_owned(labels, first, logits.shape[-1])
        losses = []
        for part in parts(logits.shape[1], chunk):
            softmax, shift, total = shares(logits[:, part])
            mine = torch.where(here[:, part], pick(logits[:, part] - shift, index[:, part]), 0.0)
            # One rank has the label's logit, the others give 0.
            dist.all_reduce(mine)
            losses.append(mine - total.log().squeeze(-1))
        ctx.chunk, ctx.in_place = chunk, in_place
        ctx.save_for_backward(softmax if chunk is None else logits, here, index)
        return torch.cat(losses, 1)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        saved, here, index = ctx.saved_tensors
        into = saved if ctx.in_place and ctx.chunk is not None else torch.empty_like(saved)
        for part in parts(saved.shape[1], ctx.chunk):
            softmax = saved if ctx.chunk is None else shares(saved[:, part])[0]
            hot = torch.zeros_like(softmax).scatter(-1, index[:, part, None], 1.0)
            hot = hot * here[:, part, None]
            into[:, part] = (hot - softmax) * grad[:, part, None]
        return into, None, None, None, None


class Entropy(torch.autograd.Function):
    """Entropies of tokens. ``in_place`` uses the saved logits to compute in, and restores them."""

    @staticmethod
    def forward(ctx: Any, logits: Any, in_place: bool) -> Any:
        softmax, shift, total = shares(logits)
        mean = (softmax * logits).sum(-1, keepdim=True)
        dist.all_reduce(mean)
        ctx.in_place = in_place
        ctx.save_for_backward(logits, softmax, mean)
        return (shift + total.log() - mean).squeeze(-1)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        logits, softmax, mean = ctx.saved_tensors
        if ctx.in_place:
            logits.sub_(mean)
            gradient = -softmax * logits * grad[..., None]
            logits.add_(mean)
            return gradient, None
        return softmax * (mean - logits) * grad[..., None], None


def shares(logits: Any) -> tuple[Any, Any, Any]:
    """The softmax, the largest logit and the sum of exponentials over all ranks."""
    shift = logits.max(-1, keepdim=True).values
    # Of all ranks: exponentials of a rank's own largest could overflow beside another's.
    dist.all_reduce(shift, op=dist.ReduceOp.MAX)
    exponentials = (logits - shift).exp()
    total = exponentials.sum(-1, keepdim=True)
    dist.all_reduce(total)
    return exponentials / total, shift, total


def find_owned(labels: Any, first: int, size: int) -> tuple[Any, Any]:
    """Which labels are of this rank, and where; 0 for those of others."""
    here = (labels >= first) & (labels < first + size)
    return here, torch.where(here, labels - first, torch.zeros_like(labels))


def pick(logits: Any, index: Any) -> Any:
    return logits.gather(-1, index[..., None]).squeeze(-1)


def parts(length: int, chunk: int | None) -> list[slice]:
    step = chunk or length
    return [slice(start, min(start + step, length)) for start in range(0, length, step)]
