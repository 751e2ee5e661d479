"""What is said of two runs that part."""

from collections.abc import Iterator, Mapping
from itertools import groupby

from ascend_doctor.precision.parting import Parting, PartingCause
from ascend_doctor.precision.records import TensorKind, TensorRecord

_WHAT = {
    TensorKind.WEIGHT: "initial weight {name}",
    TensorKind.BUFFER: "buffer {name}",
    TensorKind.INPUT: "input {slot} of {name}",
    TensorKind.OUTPUT: "output of {name}",
    TensorKind.OUTPUT_GRADIENT: "gradient of the output of {name}",
    TensorKind.INPUT_GRADIENT: "gradient of input {slot} of {name}",
    TensorKind.WEIGHT_GRADIENT: "gradient of {name} on this rank",
    TensorKind.STATE: "optimizer state {slot} of {name}",
    TensorKind.MAIN_GRADIENT: "reduced gradient of {name}",
    TensorKind.GRADIENT: "gradient of {name} that the optimizer takes",
    TensorKind.UPDATE: "{name} after the optimizer's step",
}
_DIRECTION = {
    TensorKind.WEIGHT: "before the first step",
    TensorKind.BUFFER: "forward",
    TensorKind.INPUT: "forward",
    TensorKind.OUTPUT: "forward",
    TensorKind.STATE: "optimizer",
    TensorKind.GRADIENT: "optimizer",
    TensorKind.MAIN_GRADIENT: "optimizer",
    TensorKind.UPDATE: "optimizer",
}
OUTSIDE = "the job, outside of any module"


def describe(record: TensorRecord) -> str:
    text = _WHAT[record.kind].format(name=record.name, slot=record.slot or "0")
    return f"{text}, call {record.call + 1}" if record.call else text


def direction(parting: Parting) -> str:
    return _DIRECTION.get(parting.record.kind, "backward")


def explain(parting: Parting, names: tuple[str, str]) -> str:
    """The difference. ``names`` are those of the reference and of the other run."""
    left, right = parting.reference, parting.other
    if left is None or right is None:
        return f"only {names[left is None]} has it"
    if parting.cause is PartingCause.VALUES:
        if left.digest != right.digest and left.norm is None:
            return f"check sum {left.digest} in {names[0]}, {right.digest} in {names[1]}"
        return (
            f"{parting.difference:.2g} apart relative to its size; {parting.tolerance:.2g} is the "
            f"tolerance ({parting.dtype})"
        )
    if parting.cause is PartingCause.DETACHED:
        return f"only in {names[not left.attached]} a gradient can come back to it"
    what, sides = {
        PartingCause.SHAPE: ("shape", (list(left.shape), list(right.shape))),
        PartingCause.DTYPE: ("dtype", (left.dtype, right.dtype)),
        PartingCause.NOT_FINITE: (
            "numbers that are not finite:",
            (left.not_finite, right.not_finite),
        ),
    }[parting.cause]
    return f"{what} {sides[0]} in {names[0]}, {sides[1]} in {names[1]}"


def lines(partings: Mapping[str, Parting | None], names: tuple[str, str]) -> Iterator[str]:
    """The text of the comparison: the earliest parting first, agreeing ranks together."""
    rows = [(parting, rank) for rank, parting in partings.items() if parting is not None]
    rows.sort(key=lambda row: (row[0].record.step, row[0].agreed))
    grouped = groupby(rows, key=lambda row: (row[0].module, row[0].record.key, row[0].cause))
    for number, (_, group) in enumerate(grouped):
        members = list(group)
        parting = members[0][0]
        ranks = ", ".join(rank for _, rank in members)
        if number:
            yield ""
        yield f"✗ {parting.module or OUTSIDE}: {names[0]} and {names[1]} part here"
        yield f"  On        {ranks}"
        yield f"  Where     step {parting.record.step + 1}, {direction(parting)}"
        yield f"  First     {describe(parting.record)}"
        yield f"  Differs   {explain(parting, names)}"
        yield f"  Before    {parting.agreed} tensors agree"
    equal = [rank for rank, parting in partings.items() if parting is None]
    if rows and equal:
        yield f"\nno difference on {', '.join(equal)}"
