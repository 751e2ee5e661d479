"""Which machine's measurement stands out, by a rule that one bad machine cannot bend."""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

# The modified z-score and its limit: B. Iglewicz, D. Hoaglin, How to Detect and Handle Outliers,
# ASQC 1993. 0.6745 makes the median absolute deviation comparable to a standard deviation.
_LIMIT, _SCALE = 3.5, 0.6745
_LEAST = 4
# Smaller differences do not matter: a tenth of a rate, or twice the time and 0.1 s.
_RATE_SHARE, _TIME_FACTOR, _TIME_LEAST = 0.1, 2.0, 0.1
# No job should wait for a node below half the median rate, or above four times its time.
_FAILING_RATE, _FAILING_TIME = 0.5, 4.0
_UNITS = {"_s": True, "_gbps": False, "_tflops": False}


class Outlier(NamedTuple):
    """``position`` is the index of the value; ``median`` is that of all."""

    position: int
    value: float
    median: float


def more_is_worse(name: str) -> bool | None:
    return next((worse for unit, worse in _UNITS.items() if name.endswith(unit)), None)


def figures(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """Times and rates among the values of a probe; nested mappings give dotted names."""
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from figures(value, f"{name}.")
        elif more_is_worse(name) is not None and (
            isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        ):
            yield name, float(value)


def outliers(values: Sequence[float], *, worse_above: bool) -> list[Outlier]:
    """The values far on the bad side of the others; none of fewer than four."""
    if len(values) < _LEAST:
        return []
    median = statistics.median(values)
    deviation = statistics.median(abs(value - median) for value in values)
    floor = abs(median) / 100  # of values that are all the same but one
    findings = []
    for position, value in enumerate(values):
        off = value - median if worse_above else median - value
        score = _SCALE * off / max(deviation, floor, 1e-12)
        if score > _LIMIT and _matters(off, median, worse_above=worse_above):
            findings.append(Outlier(position, value, median))
    return findings


def _matters(off: float, median: float, *, worse_above: bool) -> bool:
    if worse_above:
        return off > _TIME_LEAST and off > (_TIME_FACTOR - 1) * abs(median)
    return off > _RATE_SHARE * abs(median)


def far_below(outlier: Outlier, *, worse_above: bool) -> bool:
    if worse_above:
        return outlier.value > _FAILING_TIME * outlier.median
    return outlier.value < _FAILING_RATE * outlier.median
