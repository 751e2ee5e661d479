"""What several probes measure, and how a record is read from the values of a rank."""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

# JSON has neither NaN nor infinity, so that probes write them as text.
Number = float | str


class ProbeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What any probe may measure; the record of a probe inherits from it.

    ``blocks`` says why no probe that builds on this one can run. ``late``: a part had no end in
    its time. ``teardown_error`` is how a rank left its group, "" for well. ``name`` is that of the
    device, ``megatron`` the version of megatron.core, ``through`` what made it run here. ``hosts``
    are nodes by number. Fields without a value were not measured: the probe did not come as far, or
    is an older one.
    """

    blocks: str | None = None
    late: bool = False
    teardown_error: str = ""
    name: str | None = None
    megatron: str | None = None
    through: str | None = None
    hosts: dict[int, str] = {}

    @classmethod
    def arrange(cls, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """The values by the names of fields, where a probe writes keys that are data."""
        return values


Record = TypeVar("Record", bound=ProbeRecord)


def read_record(kind: type[Record], values: Mapping[str, Any]) -> Record:
    """The record in the values of a rank. Raises ValueError where they have another form."""
    try:
        return msgspec.convert(kind.arrange(values), kind, str_keys=True)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error


class ChildOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a child process of a probe ended: "" for well, and the last that it printed."""

    error: str = ""
    output: str = ""

    @property
    def is_late(self) -> bool:
        """Whether it did not end in its time, or the probe had no more time for it."""
        return self.error.startswith("TimeoutError: no ")

    @property
    def was_cut_short(self) -> bool:
        """Whether the probe had no more time for it; then it says nothing bad."""
        return self.error.startswith("TimeoutError: no time left")
