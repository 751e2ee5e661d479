"""A demand on a component, the unit of a search for a stack."""

import re
from dataclasses import dataclass

from ascend_doctor.matrix.schema import Need

# The version of a component that a stack does not have.
ABSENT = ""
EXACT = re.compile(r"^==([^\s,|*]+)$")


@dataclass(frozen=True, eq=False)
class Demand:
    """That a component is there in a range.

    Two demands are never equal: answers are remembered by identity.

    ``conditional``: or is not there at all. ``negated``: outside of the range. Without
    ``binding`` the range is a preference.
    """

    component: str
    versions: str
    by: str
    need: Need | None = None
    conditional: bool = False
    negated: bool = False
    binding: bool = True
