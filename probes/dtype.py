"""Converts to each dtype on one device, adds and multiplies in it, and compares with the CPU.

Which dtypes a chip has depends on its generation; what is absent fails, and each case has a process
of its own then. Recorded: ``cases`` by dtype, with ``differ`` (elements that are converted
otherwise than on the CPU), ``sum`` (whether a sum is exact), ``product`` (relative error of a
matrix product) or ``product_error``.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import _cases
import _probe
from _probe import Probe

MANIFEST = {
    "order": 110,
    "level": 2,
    "seconds": 300,
    "seconds_cpu": 90,
    "needs": ["device"],
    "forked": True,
    "does": "converts to and from six dtypes, adds and multiplies in them",
    "on_cpu": "the same",
}

CASE_SECONDS = 120.0
SIDE = 64
DTYPES = ("float32", "bfloat16", "float16", "float64", "float8_e4m3fn", "float8_e5m2")


def body(probe: Probe) -> None:
    """Conversion, sum and product in each dtype of one device."""
    _cases.run(probe, __file__, list(CASES), limit=CASE_SECONDS, cases=CASES)


def case(torch: Any, device: str, dtype: str) -> dict[str, Any]:
    """One dtype. Whole numbers up to 8 are exact in all of them, and so are their sums."""
    kind = getattr(torch, dtype)
    generator = torch.Generator().manual_seed(1234)
    drawn = torch.randn(SIDE, SIDE, generator=generator) * 4
    expected = drawn.to(kind).float()
    got = drawn.to(device).to(kind).float().cpu()
    outcome: dict[str, Any] = {"differ": int((got != expected).sum())}
    if not dtype.startswith("float8"):
        # Nothing is computed in these but scaled matrix products.
        whole = (torch.arange(SIDE) % 8).to(kind)
        total = (whole.to(device) + whole.to(device)).cpu()
        outcome["sum"] = bool((total == whole + whole).all())
        outcome |= product(device, drawn.to(kind))
    return outcome


def product(device: str, matrix: Any) -> dict[str, Any]:
    """The relative error of a matrix times itself; that it is refused is a measurement, too."""
    expected = matrix.double() @ matrix.double()
    there = matrix.to(device)
    try:
        got = (there @ there).cpu().double()
    except RuntimeError as error:
        return {"product_error": _probe.innermost(error)}
    return {"product": ((got - expected).abs().max() / expected.abs().max()).item()}


CASES: dict[str, _cases.Case] = {name: partial(case, dtype=name) for name in DTYPES}


if __name__ == "__main__":
    _cases.answer(CASES)
    _probe.main(body, name="dtype")
