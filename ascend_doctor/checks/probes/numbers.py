"""A training of Megatron against the same in plain torch: what is wrong, and its name."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ascend_doctor.checks.probes.run_failures import ranks_text
from ascend_doctor.findings import Finding
from ascend_doctor.judging.judge import error
from ascend_doctor.probe_results import ProbeRun

Ranks = Mapping[int, Mapping[str, Any]]


class Close(NamedTuple):
    """How much may be off, relative to what is compared.

    ``first`` is the first loss, ``later`` all others, ``module`` what a module gives. ``like`` is
    what is left of an error once it has its name: the balance of experts is scaled by itself.
    """

    first: float
    later: float
    module: float
    gradient: float
    like: float


# Sums in another order move losses by 2e-7 and gradients by 2e-6 (gloo, 0.12.1 to 0.16.1).
_EXACT = Close(first=1e-4, later=1e-4, module=1e-4, gradient=1e-4, like=5e-2)
# Where products round their factors to 10 bits (HF32), the first loss of the reference itself moves
# by 4e-5, gradients by 3e-3, and the last losses by 1.2e-2, because other experts are chosen.
_ROUNDED = Close(first=1e-4, later=3e-2, module=1e-2, gradient=2e-2, like=5e-2)
# Rounding the reference itself to bfloat16 (8 bits) after most operations moves its first loss by
# 5e-5 to 2e-4, modules by up to 2e-2 and gradients by up to 5e-2 (of routers, which see differences
# of what experts give), with five drawings of data; megatron.core 0.15.3 is off by as much over
# gloo and on the simulated NPU. No token is near another expert (probes/_reference.py, _steer).
_BF16 = Close(first=1e-3, later=5e-3, module=6e-2, gradient=1.2e-1, like=1.2e-1)
# Weights whose gradient is a millionth of the whole have noise.
_NOISE = 1e-6
_REFERENCE = "The reference is the same model in plain torch, on the CPU, without Megatron."


def against_reference(run: ProbeRun, name: str, ranks: Ranks) -> Iterator[Finding]:
    """The first thing that is wrong under a layout: what comes after it is wrong by it."""
    close = _EXACT if run.device == "cpu" or run.simulated else _ROUNDED
    if any((one.get("kind") or {}).get("bf16") for one in ranks.values()):
        close = _BF16
    for judge in (_forward, _gradients, _norm, _steps):
        found = judge(name, ranks, close)
        if found:
            yield found
            return


def _reference(ranks: Ranks) -> Mapping[str, list[float]]:
    return next((one["reference"] for one in ranks.values() if one.get("reference")), {})


def _losses(ranks: Ranks) -> list[float]:
    """Of the last stage; a NaN has been told already."""
    for one in ranks.values():
        losses = one.get("losses") or [None]
        if None not in losses:
            return [float(value) for value in losses]
    return []


def _off(got: float, wanted: float) -> float:
    return abs(got - wanted) / abs(wanted)


# ------------------------------------------------------------------ forward


def _forward(name: str, ranks: Ranks, close: Close) -> Finding | None:
    losses, wanted = _losses(ranks), _reference(ranks).get("losses", [])
    wrong = bool(losses and wanted) and _off(losses[0], wanted[0]) > close.first
    turns = [
        (turn, off, module, rank)
        for rank, one in ranks.items()
        for module, (turn, off) in (one.get("modules") or {}).items()
        if float(off) > close.module or math.isnan(float(off))
    ]
    if not wrong and not turns:
        return None
    parts = [f"loss {losses[0]:.5f}"] if losses else []
    guilty: tuple[int, ...] = ()
    if turns:
        turn, off, module, rank = min(turns)
        guilty = tuple(sorted(rank for one, _, _, rank in turns if one == turn))
        parts.append(
            f"the first to part is {module}, off by {float(off):.1%} on {ranks_text(guilty)}"
        )
        parts += _mistaken(ranks[rank], close)
    elif wrong:
        parts.append("all modules give what they should, up to the loss itself")
    if wrong and close is not _BF16:
        parts += _fits(ranks, losses[:1], close.first, "it is the loss of a model {}")
    title = "the loss is wrong" if wrong else f"{min(turns)[2]} gives something else"
    return error(
        f"smoke-train: {title} under {name} from step 1 on",
        found="; ".join(parts),
        wanted=f"{wanted[0]:.5f}" if wrong else "what the reference gives",
        because=f"{_REFERENCE} The mathematics of the model are wrong, or an operator.",
        ranks=guilty if len(guilty) < len(ranks) else (),
    )


def _mistaken(one: Mapping[str, Any], close: Close) -> list[str]:
    """The mistakes with which the first module that parts gives what it gives."""
    alike = one.get("alike") or {}
    fits = [mistake for mistake, off in alike.items() if 0 <= float(off) <= close.module]
    return [f"it gives what it does in a model {' or '.join(fits)}"] if fits else []


def _fits(ranks: Ranks, losses: list[float], close: float, text: str) -> list[str]:
    """The mistakes that give these losses."""
    tried: Mapping[str, list[float]] = next(
        (one["mistakes"] for one in ranks.values() if one.get("mistakes")), {}
    )
    fits = [
        mistake
        for mistake, given in tried.items()
        if all(_off(got, one) <= close for got, one in zip(losses, given, strict=False))
    ]
    return [text.format(" or ".join(fits))] if fits else []


# ------------------------------------------------------------------ gradients


class Weight(NamedTuple):
    """The gradient of a weight over all ranks that have a part of it. ``off`` is relative."""

    off: float
    parts: list[Mapping[str, Any]]


def _gradients(name: str, ranks: Ranks, close: Close) -> Finding | None:
    weights = _weights(ranks)
    wrong = {one: weight for one, weight in weights.items() if weight.off > close.gradient}
    if not wrong:
        return None
    worst = max(wrong, key=lambda one: wrong[one].off)
    some = next(iter(ranks.values()))
    # At the start half of each adapter has none.
    count = sum(any(one["size"] for one in weight.parts) for weight in weights.values())
    why = _why(wrong, count, some, close.like)
    which = f"{len(wrong)} of {count} weights, {worst} the most, off by {wrong[worst].off:.1%}"
    return error(
        f"smoke-train: gradients are wrong under {name}",
        found=f"{why}; {which}" if why else which,
        wanted="the gradients of the reference, averaged over all micro-batches of all ranks",
        because=f"{_REFERENCE} The forward pass agrees. Adam hides a wrong size for some steps, "
        "and the loss may fall all the same.",
    )


def _weights(ranks: Ranks) -> dict[str, Weight]:
    parts: dict[str, list[Mapping[str, Any]]] = {}
    for one in ranks.values():
        for weight, measured in (one.get("gradients") or {}).items():
            parts.setdefault(weight, []).append(measured)
    total = sum(one["size"] ** 2 for several in parts.values() for one in several) ** 0.5
    return {
        weight: Weight(
            (sum(float(one["off"]) ** 2 for one in several)) ** 0.5
            / max(sum(one["size"] ** 2 for one in several) ** 0.5, _NOISE * total, 1e-30),
            several,
        )
        for weight, several in parts.items()
    }


_WHOSE = {
    "own": "each data parallel rank has the gradients of its own micro-batches: they are not "
    "reduced over the ranks",
    "last": "they are those of the last micro-batch alone: micro-batches are not added up",
}


def _why(wrong: Mapping[str, Weight], count: int, some: Mapping[str, Any], close: float) -> str:
    """What makes gradients of this kind, or nothing."""
    parts = [one for weight in wrong.values() for one in weight.parts if one["size"]]
    factors = [one["factor"] for one in parts]
    whose = "all gradients" if len(wrong) == count else "they"
    if not any(factors):
        return f"{whose} are zero"
    alike = max(factors) - min(factors) <= close * max(map(abs, factors))
    if alike and all(_like(one, "rest", close) for one in parts):
        return f"{whose} are {_times(factors[0], some, close)}"
    if all(_like(one, "half", close) for one in parts):
        return (
            "the tied embedding has on the first and on the last stage only the gradient of its "
            "own use: the two are not added up"
        )
    for key, text in _WHOSE.items():
        known = [one for one in parts if key in one]
        if known and all(_like(one, key, close) for one in known):
            return text
    if some.get("tensor", 1) > 1 and not any(one["sharded"] for one in parts):
        return (
            "only what tensor parallel ranks hold in common: each has the gradient of its part of "
            "the sequence, and they are not added up"
        )
    return ""


def _like(one: Mapping[str, Any], key: str, close: float) -> bool:
    return 0 <= float(one.get(key, -1)) <= close


def _times(factor: float, some: Mapping[str, Any], close: float) -> str:
    """In words, with the name of the number that was forgotten."""
    known = {
        "data": "those of the data parallel ranks are added up and not averaged",
        "micro_batches": "they are not divided by the number of micro-batches",
    }
    for key, text in known.items():
        size = some.get(key, 1)
        if size > 1 and _off(factor, size) <= close:
            return f"{size} times too large: {text}"
    return f"{factor:.4g} times what they should be"


# ------------------------------------------------------------------ steps


def _norm(name: str, ranks: Ranks, close: Close) -> Finding | None:
    """Clipping goes by this number."""
    norms: list[Any] = next(
        (one["grad_norms"] for one in ranks.values() if one.get("grad_norms")), []
    )
    wanted = _reference(ranks).get("grad_norms", [])
    if not norms or not wanted or _off(float(norms[0]), wanted[0]) <= close.gradient:
        return None
    return error(
        f"smoke-train: the gradient norm is wrong under {name}",
        found=f"{float(norms[0]):.5f} in the first step, "
        f"{float(norms[0]) / wanted[0]:.4g} times what it should be",
        wanted=f"{wanted[0]:.5f}",
        because=f"{_REFERENCE} The gradients themselves agree, so some are counted twice, or by "
        "no rank, and clipping scales all of them by a wrong number.",
    )


def _steps(name: str, ranks: Ranks, close: Close) -> Finding | None:
    losses, wanted = _losses(ranks), _reference(ranks).get("losses", [])
    for step, (got, one) in enumerate(zip(losses, wanted, strict=False), 1):
        if _off(got, one) > close.later:
            fits = _fits(ranks, losses, close.later, "it trains as if {}")
            return error(
                f"smoke-train: the loss is wrong under {name} from step {step} on",
                found="; ".join([", ".join(f"{value:.5f}" for value in losses), *fits]),
                wanted=", ".join(f"{value:.5f}" for value in wanted),
                because=f"{_REFERENCE} The first loss and its gradients agree, so what is wrong "
                "is the optimizer: clipping, the moments, the decay, the rate, or where it writes.",
            )
    return None
