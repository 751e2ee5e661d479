"""On which rank, and where in the model, the first number that is not finite appeared."""

from collections.abc import Mapping
from typing import NamedTuple

from ascend_doctor.checks.probes.run_failures import ranks_text
from ascend_doctor.probe_records.training import LayoutRecord, NotFinite

_HOW = {
    "result": "it began on {who}, in {module}",
    "sent": "it began on {who}, in what {module} gives to the other ranks",
    "between": "it began on {who}, in {module}, between the modules that it calls",
    "weight": "it began on {who}, in a weight of {module}, before the step",
    "received": "it came to {who} from the stage before, which shows none",
}
_BECAUSE = {
    "weight": "The optimizer has written it in the step before, or the memory has changed.",
    "received": "What was sent between the stages is not what arrived.",
}


class NanOrigin(NamedTuple):
    """``ranks`` are empty if no forward pass shows it: then it began behind them."""

    ranks: tuple[int, ...]
    text: str
    because: str


def origin(layouts: Mapping[int, LayoutRecord], step: int) -> NanOrigin | None:
    """The origin by each rank's record of one layout; None if too little was recorded.

    A stage's ranks share events; later stages get a forward pass later, ranks from the earliest.
    """
    seen = {
        rank: layout.not_finite[step - 1]
        for rank, layout in layouts.items()
        if len(layout.not_finite) >= step
    }
    met = {rank: event for rank, event in seen.items() if event}
    if not met:
        complete = len(seen) == len(layouts)
        text = "the forward passes were finite: it began in the backward pass"
        return NanOrigin((), text, "") if complete else None
    origins = {
        rank: (event.forward, layouts[rank].stage, event.event) for rank, event in met.items()
    }
    ranks = tuple(rank for rank in met if origins[rank] == min(origins.values()))
    first = met[ranks[0]]
    text = _HOW[first.how].format(who=_who(ranks, layouts), module=first.module)
    return NanOrigin(ranks, f"{text}, in forward pass {first.forward}", _because(ranks, first))


def _who(ranks: tuple[int, ...], layouts: Mapping[int, LayoutRecord]) -> str:
    devices = [layouts[rank].device for rank in ranks if layouts[rank].device != "cpu"]
    return ranks_text(ranks) + (f" ({', '.join(devices)})" if devices else "")


def _because(ranks: tuple[int, ...], first: NotFinite) -> str:
    if first.how in _BECAUSE:
        return _BECAUSE[first.how]
    if len(ranks) == 1:
        return "The other ranks get it from there; the loss does not tell where it began."
    return "All of them meet it first at this place: an operator there, or a collective inside."
