"""How far two tensors may be apart, by the coarsest number format that has had a part in them."""

from collections.abc import Iterable
from typing import NamedTuple

from ascend_doctor.errors import DataError


class Tolerance(NamedTuple):
    """``relative`` to the tensor's own size; ``floor`` to that of tensors of its kind.

    The floor is for what should be zero except for rounding, as the gradient of a bias that a
    softmax or a norm cancels. Both are multiplied by ``drift``, and by the number of optimizer
    steps before, once there is one: Adam makes whole steps of small gradients' last bits.
    """

    relative: float
    floor: float
    drift: float

    def at(self, step: int) -> float:
        return self.drift * step if step else 1.0


# Some hundred roundings of the format: its step between 1 and 2 is 2**-23, 2**-10, 2**-7, 2**-3
# (IEEE 754; bfloat16 has 8 significant bits, float8_e4m3fn 4). Drift as seen of healthy jobs whose
# products are rounded otherwise (tests/precision).
DEFAULTS = {
    "float64": Tolerance(1e-5, 1e-7, 10),
    "float32": Tolerance(1e-4, 1e-5, 10),
    "float16": Tolerance(1e-2, 5e-3, 3),
    "bfloat16": Tolerance(5e-2, 2e-2, 5),
    "float8": Tolerance(3e-1, 1e-1, 1.5),
}
_SHORT = {"fp64": "float64", "fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
_SHORT |= {"fp8": "float8"}
_ORDER = list(DEFAULTS)


def parse_tolerances(texts: Iterable[str]) -> dict[str, Tolerance]:
    """The defaults, except for typed ones, as ``bf16=0.1``. Raises DataError."""
    tolerances = dict(DEFAULTS)
    for text in texts:
        name, _, number = text.partition("=")
        dtype = _SHORT.get(name, name)
        if dtype not in tolerances:
            raise DataError(f"--tolerance {text}: no such dtype; known are {', '.join(DEFAULTS)}")
        try:
            relative = float(number)
        except ValueError:
            relative = -1.0
        if not 0 <= relative < 1:
            raise DataError(f"--tolerance {text}: not a number from 0 to 1, as in fp32=1e-3")
        share = tolerances[dtype].floor / tolerances[dtype].relative
        tolerances[dtype] = Tolerance(relative, relative * share, tolerances[dtype].drift)
    return tolerances


def format_of(dtype: str) -> str | None:
    """The format that bounds a tensor's accuracy; None for integers and booleans."""
    if dtype.startswith("float8"):
        return "float8"
    if dtype.startswith("complex"):
        return "float32" if dtype == "complex64" else "float64"
    return dtype if dtype in DEFAULTS else None


def coarsest(*formats: str | None) -> str | None:
    known = [name for name in formats if name is not None]
    return max(known, key=_ORDER.index) if known else None
