"""What the runtime must know of a SoC, from the hardware matrix."""

from ascend_doctor.errors import DataError
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.schema import Family, Soc

# Parts of the documented peaks that operators and links reach, and what each takes beside.
_OPERATORS, _LINKS = 0.6, 0.8
_SECONDS = "kernel=3e-6 launch=1.5e-5 latency=3e-5"


def find(name: str) -> tuple[Family, Soc]:
    """The chip of that name, and its family. Raises DataError with the valid names."""
    known = {soc.soc: (family, soc) for family in Catalog().families for soc in family.socs}
    if name not in known:
        raise DataError(f"{name}: no such SoC in the matrix; known are {', '.join(sorted(known))}")
    return known[name]


def properties(name: str) -> dict[str, str]:
    """Settings of the runtime, without those that the matrix lacks."""
    family, soc = find(name)
    l2_bytes = None if soc.l2_mib is None else soc.l2_mib << 20
    values = {
        "CUBE_CORES": soc.cube_cores,
        "VECTOR_CORES": soc.vector_cores,
        "L2": l2_bytes,
        "CLOCK": _rates(family, soc),
    }
    return {f"ASCEND_SIMULATOR_{k}": str(v) for k, v in values.items() if v is not None}


def _rates(family: Family, soc: Soc) -> str | None:
    """Rates a second for runtime/clock.c and operators/clock.py: operations, or bytes."""
    if (most := family.bandwidths) is None or soc.peak_tflops is None:
        return None
    rates = {
        "cube": _OPERATORS * soc.peak_tflops * 1e12,
        "memory": _OPERATORS * most.memory * 1e9,
        "pair": _LINKS * most.pair * 1e9,
        "own": _LINKS * most.card * 1e9,
        "node": _LINKS * most.network * 1e9,
    }
    return " ".join([*(f"{key}={rate:.4g}" for key, rate in rates.items()), _SECONDS])
