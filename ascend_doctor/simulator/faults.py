"""Faults of the simulated NPU: what can be broken, where it bites, what it must be diagnosed as."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from ascend_doctor.errors import DataError
from ascend_doctor.matrix.loading import load
from ascend_doctor.matrix.schema import Row

PLACES = ("rank", "device", "step")


class Fault(Row, frozen=True, kw_only=True):
    """One declared fault.

    ``kind`` and ``options`` are for the runtime (runtime/*.c) or the operators (operators/).
    ``failure`` is the id in the failure catalogue; "" if values or times show it, not a
    message. ``builds`` are arguments of ``build``: such a fault is in the tree, not in a
    process. ``environment`` are variables that it needs to show.
    """

    id: str
    title: str
    failure: str = ""
    kind: str = ""
    options: Mapping[str, str] = {}
    builds: Mapping[str, str] = {}
    environment: Mapping[str, str] = {}


class Injection(msgspec.Struct, frozen=True, kw_only=True):
    """A fault at a place. ``where``: rank, device and step as the user gave them."""

    fault: Fault
    where: Mapping[str, str] = {}

    @property
    def line(self) -> str:
        """The text for ``Tree.environment``; "" for a built-in fault."""
        if not self.fault.kind:
            return ""
        options = {**self.fault.options, **self.where}
        return " ".join((self.fault.kind, *(f"{key}={value}" for key, value in options.items())))


class _Faults(Row, frozen=True, kw_only=True):
    """``faults.yaml`` beside this file."""

    schema: int
    faults: tuple[Fault, ...]


FAULTS = load(Path(__file__).with_name("faults.yaml"), _Faults).faults


def parse(text: str) -> Injection:
    """``hbm-ecc`` or ``rank-hangs:rank=1,step=3``. Raises DataError with the valid names."""
    name, _, rest = text.partition(":")
    known = {fault.id: fault for fault in FAULTS}
    if name not in known:
        raise DataError(f"{name}: no such fault; there are {', '.join(sorted(known))}")
    where = {}
    for pair in filter(None, rest.split(",")):
        key, _, value = pair.partition("=")
        if key not in PLACES or not value.isdecimal():
            raise DataError(f"{text}: {pair!r} is not one of rank=N, device=N, step=N")
        where[key] = value
    return Injection(fault=known[name], where=where)
