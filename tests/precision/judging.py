"""Whether what is said of a fault is its label."""

from __future__ import annotations

from pathlib import Path

from ascend_doctor.precision.dumps import read_dump
from ascend_doctor.precision.parting import Parting, find_parting
from ascend_doctor.precision.tolerances import DEFAULTS
from ascend_doctor.precision.wording import direction, explain
from tests.precision.programs.cases import Fault

RANKS = 2


def first_parting(reference: Path, other: Path) -> Parting | None:
    """What comes first on any rank."""
    left, right = read_dump(str(reference)), read_dump(str(other))
    assert list(left.ranks) == list(right.ranks) == [f"rank {rank}" for rank in range(RANKS)]
    partings = [
        find_parting(left.ranks[rank].records, right.ranks[rank].records, DEFAULTS)
        for rank in left.ranks
    ]
    return min(filter(None, partings), key=lambda parting: parting.agreed, default=None)


def judge(folder: Path, fault: Fault) -> str:
    """What is wrong with what is said of a fault; "" for nothing."""
    parting = first_parting(folder / "cpu" / fault.variant.name, folder / "npu" / fault.name)
    if parting is None:
        return f"{fault}: not seen"
    if parting.module == fault.module and direction(parting) in fault.directions:
        return ""
    said = f"{parting.module} {direction(parting)} {parting.record.key}"
    return f"{fault}: {said}, {explain(parting, ('CPU', 'NPU'))}"
