"""What the runtime must know of a SoC, from the hardware matrix."""

from __future__ import annotations

from ascend_doctor.errors import DataError
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.schema import Soc


def find(name: str) -> Soc:
    """The chip of that name. Raises DataError with the valid names."""
    known = {soc.soc: soc for family in Catalog().families for soc in family.socs}
    if name not in known:
        raise DataError(f"{name}: no such SoC in the matrix; known are {', '.join(sorted(known))}")
    return known[name]


def properties(name: str) -> dict[str, str]:
    """Settings of the runtime, without those that the matrix lacks."""
    soc = find(name)
    l2_bytes = None if soc.l2_mib is None else soc.l2_mib << 20
    values = {"CUBE_CORES": soc.cube_cores, "VECTOR_CORES": soc.vector_cores, "L2": l2_bytes}
    return {f"ASCEND_SIMULATOR_{k}": str(v) for k, v in values.items() if v is not None}
