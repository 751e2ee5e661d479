"""The record of the pair rounds: what nodes measured in pairs."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from ascend_doctor.probe_records.common import ProbeRecord

Outcome = Literal["ok", "wrong", "failed", "untold"]
_MOST = 100_000


class PairRow(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement of the nodes ``pair``, by number; ``why`` says how it ended if not well.

    ``us`` is the lower quartile of small messages in microseconds, ``worst_us`` their longest;
    ``stalls`` of ``messages`` took more than a tenth of a second; ``retransmitted`` of ``sent`` TCP
    segments were sent again; ``gbps`` is the best bus bandwidth in 1e9 bytes/s; ``wrong`` counts
    elements of the sum, ``link_s`` is the time until the first one was there.
    """

    pair: tuple[int, int]
    outcome: Outcome
    round: int = 0
    why: str = ""
    wrong: int = 0
    link_s: float = 0.0
    us: float = 0.0
    worst_us: float = 0.0
    messages: int = 0
    stalls: int = 0
    sent: int = 0
    retransmitted: int = 0
    gbps: float = 0.0


class PairTable(ProbeRecord, frozen=True, kw_only=True):
    """What one agent of the probe recorded. ``hosts`` are names by number, as far as it knows them.

    ``run`` names the run, the same on all nodes; ``unfinished`` says why rounds were left out, or
    why there were none. Raises ValueError for nodes that are not among ``count``.
    """

    run: str = ""
    count: int
    missing: tuple[int, ...] = ()
    unfinished: str = ""
    pairs: tuple[PairRow, ...] = ()

    @classmethod
    def arrange(cls, values: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**values, "unfinished": values.get("unfinished") or values.get("untold") or ""}

    def __post_init__(self) -> None:
        nodes = {node for row in self.pairs for node in row.pair} | {*self.hosts, *self.missing}
        if not 0 < self.count <= _MOST or any(not 0 <= node < self.count for node in nodes):
            raise ValueError(f"nodes that are not among {self.count}")


class NoMeetingRecord(ProbeRecord, frozen=True, kw_only=True):
    """Why nodes did not meet, where there is no table."""

    untold: str = ""
    pairs: list[Any] = []
