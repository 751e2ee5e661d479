"""A training of Megatron against the same in plain torch: what is wrong, and its name."""

import math
from collections.abc import Mapping
from typing import NamedTuple

from ascend_doctor.checks.probes.run_failures import ranks_text
from ascend_doctor.judging import Finding, Findings, error
from ascend_doctor.probe_records.common import Number
from ascend_doctor.probe_records.training import GradientPart, LayoutRecord, TrainingTrace
from ascend_doctor.probe_results import ProbeRun

Ranks = Mapping[int, LayoutRecord]


class ReferenceSteps(NamedTuple):
    losses: list[float]
    grad_norms: list[float]


class Close(NamedTuple):
    """Relative tolerances of the ``first`` loss, ``later`` ones and a ``module``'s result.

    ``like``: the rest of an error once it has its name; the balance of experts is scaled by itself.
    """

    first: float
    later: float
    module: float
    gradient: float
    like: float


# Another order of sums moves losses by 2e-7 and gradients by 2e-6 (gloo, 0.12.1 to 0.16.1).
_EXACT = Close(first=1e-4, later=1e-4, module=1e-4, gradient=1e-4, like=5e-2)
# If products round factors to 10 bits (HF32), other experts are chosen. The reference's first
# loss then moves by 4e-5, gradients by 3e-3, and the last losses by 1.2e-2.
_ROUNDED = Close(first=1e-4, later=3e-2, module=1e-2, gradient=2e-2, like=5e-2)
# Rounding the reference to bfloat16 (8 bits) after most operations, over five data draws, moves
# its first loss by 5e-5 to 2e-4 and modules by up to 2e-2. It moves gradients by up to 5e-2 (of
# routers, which see differences of expert outputs). megatron.core 0.15.3 is off as much over
# gloo and on the simulated NPU. No token is near another expert (probes/_reference.py, _steer).
_BF16 = Close(first=1e-3, later=5e-3, module=6e-2, gradient=1.2e-1, like=1.2e-1)
# A gradient of a millionth of the whole is noise.
_NOISE = 1e-6
_REFERENCE = "The reference is the same model in plain torch, on the CPU, without Megatron."


def against_reference(run: ProbeRun, name: str, ranks: Ranks) -> Findings:
    """The first fault of a layout; it causes the later ones."""
    close = _EXACT if run.device == "cpu" or run.simulated else _ROUNDED
    if any(layout.kind.bf16 for layout in ranks.values()):
        close = _BF16
    for judge in (_forward, _gradients, _norm, _steps):
        finding = judge(name, ranks, close)
        if finding:
            yield finding
            return


def _reference(ranks: Ranks) -> ReferenceSteps:
    traces = (layout.reference for layout in ranks.values())
    trace = next((trace for trace in traces if trace.losses), TrainingTrace())
    return ReferenceSteps(
        [float(loss) for loss in trace.losses], [float(norm) for norm in trace.grad_norms]
    )


def _losses(ranks: Ranks) -> list[float]:
    """Losses of the last stage; another finding already reports a NaN."""
    for layout in ranks.values():
        losses = [float(value) for value in layout.losses if value is not None]
        if losses and len(losses) == len(layout.losses):
            return losses
    return []


def _off(got: float, expected: float) -> float:
    return abs(got - expected) / abs(expected)


# --- forward


def _forward(name: str, ranks: Ranks, close: Close) -> Finding | None:
    losses, expected = _losses(ranks), _reference(ranks).losses
    wrong = bool(losses and expected) and _off(losses[0], expected[0]) > close.first
    turns = [
        (turn, off, module, rank)
        for rank, layout in ranks.items()
        for module, (turn, off) in layout.modules.items()
        if float(off) > close.module or math.isnan(float(off))
    ]
    if not wrong and not turns:
        return None
    parts = [f"loss {losses[0]:.5f}"] if losses else []
    guilty: tuple[int, ...] = ()
    if turns:
        turn, off, module, rank = min(turns)
        guilty = tuple(sorted(rank for other, _, _, rank in turns if other == turn))
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
        observed="; ".join(parts),
        required=f"{expected[0]:.5f}" if wrong else "what the reference gives",
        because=f"{_REFERENCE} The mathematics of the model are wrong, or an operator.",
        ranks=guilty if len(guilty) < len(ranks) else (),
    )


def _mistaken(layout: LayoutRecord, close: Close) -> list[str]:
    fits = [mistake for mistake, off in layout.alike.items() if 0 <= float(off) <= close.module]
    return [f"it gives what it does in a model {' or '.join(fits)}"] if fits else []


def _fits(ranks: Ranks, losses: list[float], close: float, text: str) -> list[str]:
    tried: Mapping[str, list[Number]] = next(
        (layout.mistakes for layout in ranks.values() if layout.mistakes), {}
    )
    fits = [
        mistake
        for mistake, mistaken in tried.items()
        if all(_off(got, float(loss)) <= close for got, loss in zip(losses, mistaken, strict=False))
    ]
    return [text.format(" or ".join(fits))] if fits else []


# --- gradients


class Weight(NamedTuple):
    """The gradient of a weight over all ranks with a part of it. ``off`` is relative."""

    off: float
    parts: list[GradientPart]


def _gradients(name: str, ranks: Ranks, close: Close) -> Finding | None:
    weights = _weights(ranks)
    wrong = {name: weight for name, weight in weights.items() if weight.off > close.gradient}
    if not wrong:
        return None
    worst = max(wrong, key=lambda name: wrong[name].off)
    some = next(iter(ranks.values()))
    # At the start half of each adapter has none.
    count = sum(any(part.size for part in weight.parts) for weight in weights.values())
    why = _why(wrong, count, some, close.like)
    which = f"{len(wrong)} of {count} weights, {worst} the most, off by {wrong[worst].off:.1%}"
    return error(
        f"smoke-train: gradients are wrong under {name}",
        observed=f"{why}; {which}" if why else which,
        required="the gradients of the reference, averaged over all micro-batches of all ranks",
        because=f"{_REFERENCE} The forward pass agrees. Adam hides a wrong size for some steps, "
        "and the loss may fall all the same.",
    )


def _weights(ranks: Ranks) -> dict[str, Weight]:
    parts: dict[str, list[GradientPart]] = {}
    for layout in ranks.values():
        for weight, part in layout.gradients.items():
            parts.setdefault(weight, []).append(part)
    total = sum(part.size**2 for several in parts.values() for part in several) ** 0.5
    return {
        weight: Weight(
            (sum(float(part.off) ** 2 for part in several)) ** 0.5
            / max(sum(part.size**2 for part in several) ** 0.5, _NOISE * total, 1e-30),
            several,
        )
        for weight, several in parts.items()
    }


_OWN = (
    "each data parallel rank has the gradients of its own micro-batches: they are not reduced over "
    "the ranks"
)
_LAST = "they are those of the last micro-batch alone: micro-batches are not added up"


def _why(wrong: Mapping[str, Weight], count: int, some: LayoutRecord, close: float) -> str:
    parts = [part for weight in wrong.values() for part in weight.parts if part.size]
    factors = [float(part.factor) for part in parts]
    whose = "all gradients" if len(wrong) == count else "they"
    if not any(factors):
        return f"{whose} are zero"
    alike = max(factors) - min(factors) <= close * max(map(abs, factors))
    if alike and all(_like(part.rest, close) for part in parts):
        return f"{whose} are {_times(factors[0], some, close)}"
    if all(_like(part.half, close) for part in parts):
        return (
            "the tied embedding has on the first and on the last stage only the gradient of its "
            "own use: the two are not added up"
        )
    for text, errors in (
        (_OWN, [part.own for part in parts if part.own is not None]),
        (_LAST, [part.last for part in parts if part.last is not None]),
    ):
        if errors and all(_like(off, close) for off in errors):
            return text
    if some.tensor > 1 and not any(part.sharded for part in parts):
        return (
            "only what tensor parallel ranks hold in common: each has the gradient of its part of "
            "the sequence, and they are not added up"
        )
    return ""


def _like(off: Number, close: float) -> bool:
    return 0 <= float(off) <= close


def _times(factor: float, some: LayoutRecord, close: float) -> str:
    for size, text in (
        (some.data, "those of the data parallel ranks are added up and not averaged"),
        (some.micro_batches, "they are not divided by the number of micro-batches"),
    ):
        if size > 1 and _off(factor, size) <= close:
            return f"{size} times too large: {text}"
    return f"{factor:.4g} times what they should be"


# --- steps


def _norm(name: str, ranks: Ranks, close: Close) -> Finding | None:
    norms = next((layout.grad_norms for layout in ranks.values() if layout.grad_norms), [None])
    expected = _reference(ranks).grad_norms
    if norms[0] is None or not expected or _off(float(norms[0]), expected[0]) <= close.gradient:
        return None
    return error(
        f"smoke-train: the gradient norm is wrong under {name}",
        observed=f"{float(norms[0]):.5f} in the first step, "
        f"{float(norms[0]) / expected[0]:.4g} times what it should be",
        required=f"{expected[0]:.5f}",
        because=f"{_REFERENCE} The gradients themselves agree, so some are counted twice, or by "
        "no rank, and clipping scales all of them by a wrong number.",
    )


def _steps(name: str, ranks: Ranks, close: Close) -> Finding | None:
    losses, expected = _losses(ranks), _reference(ranks).losses
    for step, (got, loss) in enumerate(zip(losses, expected, strict=False), 1):
        if _off(got, loss) > close.later:
            fits = _fits(ranks, losses, close.later, "it trains as if {}")
            return error(
                f"smoke-train: the loss is wrong under {name} from step {step} on",
                observed="; ".join([", ".join(f"{value:.5f}" for value in losses), *fits]),
                required=", ".join(f"{value:.5f}" for value in expected),
                because=f"{_REFERENCE} The first loss and its gradients agree, so what is wrong "
                "is the optimizer: clipping, the moments, the decay, the rate, or where it writes.",
            )
    return None
