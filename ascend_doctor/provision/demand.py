"""A demand on a component, the unit of a search for a stack."""

import re
from dataclasses import dataclass

from ascend_doctor.matrix.schema import Need

# A component that a stack does not have.
ABSENT = ""
EXACT = re.compile(r"^==([^\s,|*]+)$")


@dataclass(frozen=True, eq=False)
class Demand:
    """That a component is there in a range.

    Demands compare by identity: answers are remembered by it. ``conditional``: or is absent.
    ``negated``: outside of the range. Without ``binding`` the range is a preference.
    """

    component: str
    versions: str
    by: str
    need: Need | None = None
    conditional: bool = False
    negated: bool = False
    binding: bool = True
