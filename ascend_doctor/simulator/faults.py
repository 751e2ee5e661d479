"""Faults of the simulated NPU: what can be broken, where it bites, what it must be diagnosed as."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ascend_doctor.errors import DataError


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One declared fault.

    ``failure``: id in the failure catalogue. ``kind`` and ``options`` are what the runtime and the
    operators read. ``built`` faults change the tree or the machine, not a running process.
    """

    id: str
    failure: str
    kind: str
    title: str
    options: dict[str, str] = {}
    takes: tuple[str, ...] = ()
    built: bool = False
