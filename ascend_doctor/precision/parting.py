"""Where two runs of a job part: the first tensor that is not the same in both, rank by rank."""

import enum
import functools
import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

import msgspec

from ascend_doctor.precision.choices import COARSE, NONE, ChangedChoices, find_changed_choices
from ascend_doctor.precision.records import TensorKey, TensorKind, TensorRecord
from ascend_doctor.precision.tolerances import Tolerance, coarsest, format_of

# Other records show what these would: inputs of a module are outputs of others, and runs may keep
# different things beside their weights.
_OPTIONAL = frozenset(
    {TensorKind.INPUT, TensorKind.INPUT_GRADIENT, TensorKind.BUFFER, TensorKind.UPDATE}
)
_GRADIENTS = frozenset(
    {TensorKind.OUTPUT_GRADIENT, TensorKind.INPUT_GRADIENT, TensorKind.WEIGHT_GRADIENT}
    | {TensorKind.MAIN_GRADIENT, TensorKind.GRADIENT}
)
_FORWARD = frozenset({TensorKind.INPUT, TensorKind.OUTPUT, TensorKind.BUFFER})
_TAKEN_BY_OPTIMIZERS = frozenset({TensorKind.MAIN_GRADIENT, TensorKind.GRADIENT})
_WEIGHTS = frozenset({TensorKind.WEIGHT, TensorKind.UPDATE})
# Adam divides by the size of a gradient, and so takes whole steps for noise.
_UPDATE_SLACK = 4.0
# Squares, as in Adam's exp_avg_sq, are twice as far apart.
_SQUARE_SLACK = 2.0
# Small outputs are not rounding: with initial weights, a layer's output may be a hundredth of the
# others, and below the floor of gradients.
_FORWARD_FLOOR = 0.03
# The last bit may decide which expert or token comes first.
_INTEGERS = 0.05


# The key, and how often it came before.
_NumberedKey = tuple[TensorKey, int]


class PartingCause(enum.Enum):
    VALUES = "values"
    SHAPE = "shape"
    DTYPE = "dtype"
    NOT_FINITE = "not-finite"
    DETACHED = "detached"
    MISSING = "missing"
    EXTRA = "extra"


class Parting(msgspec.Struct, frozen=True, kw_only=True):
    """The first tensor of a rank that is not the same.

    ``module`` is where it was computed, "" for the job itself outside any module.
    ``difference`` and ``tolerance`` are relative to the size of the tensor. ``agreed`` counts
    the tensors before it.
    """

    module: str
    cause: PartingCause
    reference: TensorRecord | None = None
    other: TensorRecord | None = None
    difference: float | None = None
    tolerance: float | None = None
    dtype: str | None = None
    agreed: int = 0

    @property
    def record(self) -> TensorRecord:
        record = self.reference or self.other
        assert record is not None  # noqa: S101 - one side always has it
        return record


def find_partings(
    ranks: Mapping[str, tuple[Sequence[TensorRecord], Sequence[TensorRecord]]],
    tolerances: Mapping[str, Tolerance],
) -> dict[str, Parting | None]:
    choices = find_changed_choices(ranks.values())
    return {
        rank: find_parting(reference, other, tolerances, choices)
        for rank, (reference, other) in ranks.items()
    }


def find_parting(
    reference: Sequence[TensorRecord],
    other: Sequence[TensorRecord],
    tolerances: Mapping[str, Tolerance],
    choices: ChangedChoices = NONE,
) -> Parting | None:
    """The first tensor, in the reference's order, that differs, or that only one run has."""
    reference, other = _with_common_states(
        *([row for row in run if not choices.concern(row)] for run in (reference, other))
    )
    keys = _number(reference)
    counterparts = dict(zip(_number(other), other, strict=True))
    pairs = [(record, counterparts.get(key)) for record, key in zip(reference, keys, strict=True)]
    scales = _scales(reference)
    extras = _extras(counterparts, frozenset(keys))
    format_: str | None = None
    called: set[tuple[int, str]] = set()
    for index, record in enumerate(reference):
        if extra := extras.get(keys[index - 1] if index else None):
            return _of_extra(extra, other, index)
        counterpart = pairs[index][1]
        if counterpart is None:
            if record.kind in _OPTIONAL:
                continue
            module = _blame_for_absence(reference, index, other)
            return Parting(
                module=module, cause=PartingCause.MISSING, reference=record, agreed=index
            )
        # What follows a coarse tensor was computed from it, in whatever format.
        format_ = coarsest(format_, format_of(record.dtype), format_of(counterpart.dtype))
        if record.kind is TensorKind.OUTPUT:
            called.add((record.step, record.name))
        compare = functools.partial(
            _compare,
            format_=format_,
            tolerances=tolerances,
            scale=scales.get(_family(record), 0.0),
            reach=choices.reach(record, called),
        )
        if parting := compare(record, counterpart):
            if record.kind in _TAKEN_BY_OPTIMIZERS and parting.cause is PartingCause.VALUES:
                return _beside_clipping(pairs, index, parting, compare)
            module = blame(reference, index)
            return msgspec.structs.replace(parting, module=module, agreed=index)
    if extra := extras.get(keys[-1] if keys else None):
        return _of_extra(extra, other, len(reference))
    return None


def _with_common_states(
    reference: Sequence[TensorRecord], other: Sequence[TensorRecord]
) -> tuple[list[TensorRecord], list[TensorRecord]]:
    """Without what one of two optimizers keeps nowhere, as the number of a step beside each weight.

    Of a weight whose state was lost the others have theirs.
    """
    slots = [
        {record.slot for record in run if record.kind is TensorKind.STATE}
        for run in (reference, other)
    ]
    foreign = slots[0] ^ slots[1] if all(slots) else set()
    left, right = (
        [
            record
            for record in run
            if record.kind is not TensorKind.STATE or record.slot not in foreign
        ]
        for run in (reference, other)
    )
    return left, right


def _beside_clipping(
    pairs: Sequence[tuple[TensorRecord, TensorRecord | None]],
    index: int,
    parting: Parting,
    compare: Callable[[TensorRecord, TensorRecord], Parting | None],
) -> Parting:
    """The first gradient that differs by more than a factor that all have in common.

    If one gradient is wrong, clipping by the norm of all of them scales every other.
    """
    kind, step = parting.record.kind, parting.record.step
    family = [
        (position, record, counterpart)
        for position, (record, counterpart) in enumerate(pairs)
        if (record.kind, record.step) == (kind, step) and counterpart and counterpart.projections
    ]
    reference = [record for record, _ in pairs]
    factors = [_factor(record, counterpart) for _, record, counterpart in family]
    factor = statistics.median(factors) if factors else 1.0
    partings = {
        position: compare(_multiply(record, factor), counterpart)
        for position, record, counterpart in family
    }
    others = {position: other for position, other in partings.items() if other}
    if 2 * len(others) >= len(family) or index in others:
        return msgspec.structs.replace(parting, module=blame(reference, index), agreed=index)
    if others:
        index, parting = next(iter(others.items()))
        return msgspec.structs.replace(
            parting, module=blame(reference, index), reference=reference[index], agreed=index
        )
    # All of them: no module's doing, and less telling than what another rank may have.
    return msgspec.structs.replace(parting, module="", agreed=family[-1][0])


def _factor(record: TensorRecord, counterpart: TensorRecord) -> float:
    pairs = list(zip(record.projections, counterpart.projections, strict=False))
    square = sum(left * left for left, _ in pairs)
    return sum(left * right for left, right in pairs) / square if square else 1.0


def _multiply(record: TensorRecord, factor: float) -> TensorRecord:
    return msgspec.structs.replace(
        record,
        norm=None if record.norm is None else record.norm * abs(factor),
        projections=tuple(value * factor for value in record.projections),
    )


def _number(records: Sequence[TensorRecord]) -> list[_NumberedKey]:
    """The keys to match by: a gradient may come back to the same tensor several times."""
    seen: Counter[TensorKey] = Counter()
    keys = []
    for record in records:
        keys.append((record.key, seen[record.key]))
        seen[record.key] += 1
    return keys


def _extras(
    others: Mapping[_NumberedKey, TensorRecord], known: AbstractSet[_NumberedKey]
) -> dict[_NumberedKey | None, TensorRecord]:
    extras: dict[_NumberedKey | None, TensorRecord] = {}
    last = None
    for key, record in others.items():
        if key in known:
            last = key
        elif record.kind not in _OPTIONAL:
            extras.setdefault(last, record)
    return extras


def _of_extra(extra: TensorRecord, other: Sequence[TensorRecord], agreed: int) -> Parting:
    module = blame(other, other.index(extra))
    return Parting(module=module, cause=PartingCause.EXTRA, other=extra, agreed=agreed)


def _blame_for_absence(
    reference: Sequence[TensorRecord], index: int, other: Sequence[TensorRecord]
) -> str:
    """As ``blame``; for an uncalled module, the nearest called one around it."""
    record = reference[index]
    if record.kind is not TensorKind.OUTPUT:
        return blame(reference, index)
    called = {(row.name, row.call) for row in other if row.step == record.step}
    if (record.name, record.call) in called:
        return blame(reference, index)
    names = {name for name, _ in called}
    name = record.name.rpartition(".")[0]
    while name and name not in names:
        name = name.rpartition(".")[0]
    return name


def _compare(
    record: TensorRecord,
    counterpart: TensorRecord,
    format_: str | None,
    tolerances: Mapping[str, Tolerance],
    scale: float,
    reach: float,
) -> Parting | None:
    """The difference of two tensors, None if within tolerance; its module is still open.

    ``reach`` is how far changed choices let them be apart.
    """
    cause: PartingCause | None = None
    difference: float | None = None
    allowed: float | None = None
    # The plainest cause first: values of another shape or dtype say nothing.
    if record.shape != counterpart.shape:
        cause = PartingCause.SHAPE
    elif record.dtype != counterpart.dtype:
        cause = PartingCause.DTYPE
    elif None not in {record.attached, counterpart.attached} and (
        record.attached is not counterpart.attached
    ):
        cause = PartingCause.DETACHED
    elif bool(record.not_finite) is not bool(counterpart.not_finite):
        cause = PartingCause.NOT_FINITE
    else:
        difference, allowed = _distance(record, counterpart, format_, tolerances, scale)
        allowed = math.hypot(allowed, reach * _slack(record)) if reach else allowed
        cause = PartingCause.VALUES if difference > allowed else None
    if cause is None:
        return None
    return Parting(
        module="",
        cause=cause,
        reference=record,
        other=counterpart,
        difference=difference,
        tolerance=allowed,
        dtype=format_ or record.dtype,
    )


def _distance(
    record: TensorRecord,
    counterpart: TensorRecord,
    format_: str | None,
    tolerances: Mapping[str, Tolerance],
    scale: float,
) -> tuple[float, float]:
    apart = distance(record, counterpart)
    if apart is None:
        return (0.0 if record.digest == counterpart.digest else math.inf), 0.0
    size = max(record.norm or 0.0, counterpart.norm or 0.0)
    relative = apart / size if size else (math.inf if apart else 0.0)
    if format_of(record.dtype) is None:
        return relative, _INTEGERS if format_ in COARSE else 0.0
    tolerance = tolerances[format_ or "float32"]
    floor = tolerance.floor * scale * math.sqrt(record.elements)
    if record.kind in _FORWARD:
        floor *= _FORWARD_FLOOR
    slack = _slack(record)
    allowed = max(tolerance.relative, floor / size if size else 0.0)
    return relative, allowed * slack * tolerance.at(record.step)


def _slack(record: TensorRecord) -> float:
    if record.kind is TensorKind.UPDATE:
        return _UPDATE_SLACK
    return _SQUARE_SLACK if record.slot.endswith("_sq") else 1.0


def distance(record: TensorRecord, counterpart: TensorRecord) -> float | None:
    """The Euclidean distance of two tensors: estimated from projections, else at least this.

    The mean of the squares of the projections' differences has the square of the distance as
    its expectation (Johnson and Lindenstrauss, with signs: Achlioptas, PODS 2001). None with
    nothing but a check sum.
    """
    if record.projections and len(record.projections) == len(counterpart.projections):
        pairs = zip(record.projections, counterpart.projections, strict=True)
        return math.sqrt(statistics.fmean((left - right) ** 2 for left, right in pairs))
    pairs_of_statistics = (
        (record.norm, counterpart.norm, 1.0),
        (record.mean, counterpart.mean, math.sqrt(record.elements)),
        (record.least, counterpart.least, 1.0),
        (record.most, counterpart.most, 1.0),
    )
    bounds = [
        factor * abs(left - right)
        for left, right, factor in pairs_of_statistics
        if left is not None and right is not None
    ]
    return max(bounds) if bounds else (0.0 if not record.digest else None)


def _family(record: TensorRecord) -> tuple[int, str]:
    if record.kind in _GRADIENTS:
        return record.step, "gradient"
    if record.kind in _WEIGHTS:
        return record.step, "weight"
    return record.step, record.slot if record.kind is TensorKind.STATE else "value"


def _scales(records: Sequence[TensorRecord]) -> dict[tuple[int, str], float]:
    sizes: dict[tuple[int, str], list[float]] = {}
    for record in records:
        if record.norm and format_of(record.dtype):
            size = record.norm / math.sqrt(max(record.elements, 1))
            sizes.setdefault(_family(record), []).append(size)
    return {family: statistics.median(values) for family, values in sizes.items()}


def blame(records: Sequence[TensorRecord], index: int) -> str:
    """The module that computed a tensor of a run, if all before it was right.

    The code of the module around makes an input, between its parts. The last module that took a
    tensor made its gradient, by default the module around.
    """
    record = records[index]
    if record.kind is TensorKind.INPUT:
        return _around(records, record)
    if record.kind in {TensorKind.OUTPUT_GRADIENT, TensorKind.INPUT_GRADIENT}:
        takers = [row.name for row in _same_tensor(records, index) if row.kind is _TAKEN]
        return takers[-1] if takers else _around(records, record)
    return record.owner


_TAKEN = TensorKind.INPUT_GRADIENT


def _same_tensor(records: Sequence[TensorRecord], index: int) -> Iterator[TensorRecord]:
    first = records[index]
    for record in records[index:]:
        if (record.norm, record.projections, record.mean) != (
            first.norm,
            first.projections,
            first.mean,
        ):
            return
        yield record


def _around(records: Sequence[TensorRecord], record: TensorRecord) -> str:
    called = {row.name for row in records if row.kind is TensorKind.OUTPUT}
    name = record.name.rpartition(".")[0]
    while name and name not in called:
        name = name.rpartition(".")[0]
    return name
