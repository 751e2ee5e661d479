from __future__ import annotations

import pytest

from ascend_doctor.checks.probes.nan_origin import origin
from ascend_doctor.probe_records.training import LayoutRecord, NotFinite


def layout(*met: NotFinite | None, stage: int = 0, device: str = "cpu") -> LayoutRecord:
    """What one rank has recorded, a step each."""
    return LayoutRecord(stage=stage, device=device, not_finite=list(met))


def met(event: int, how: str = "result", *, forward: int = 1) -> NotFinite:
    return NotFinite(forward=forward, event=event, module="experts", how=how)


FIRST = ", in forward pass 1"


@pytest.mark.parametrize(
    ("ranks", "guilty", "text"),
    [
        # A row-parallel layer of the other rank gets it later.
        ((layout(met(9)), layout(met(5))), (1,), f"it began on rank 1, in experts{FIRST}"),
        ((layout(met(5)), layout(met(5))), (0, 1), f"it began on ranks 0, 1, in experts{FIRST}"),
        ((layout(None), layout(met(5, forward=3))), (1,), "in experts, in forward pass 3"),
        ((layout(met(2, forward=2)), layout(met(9))), (1,), "rank 1, in experts"),
        ((layout(met(9)), layout(met(7, "sent"))), (1,), "in what experts gives to the other"),
        ((layout(met(9, "between")), layout(None)), (0,), "in experts, between the modules"),
        ((layout(met(9, "weight")), layout(None)), (0,), "in a weight of experts, before the step"),
        # The second stage meets it at its start, which is after the end of the first one.
        ((layout(met(9)), layout(met(2, "received"), stage=1)), (0,), "rank 0, in experts"),
        ((layout(None), layout(met(2, "received"), stage=1)), (1,), "from the stage before"),
        ((layout(None), layout(None)), (), "it began in the backward pass"),
        (
            (layout(met(9), device="npu:0"), layout(met(5), device="npu:1")),
            (1,),
            "it began on rank 1 (npu:1), in experts",
        ),
    ],
)
def test_the_earliest_is_where_it_began(
    ranks: tuple[LayoutRecord, ...], guilty: tuple[int, ...], text: str
) -> None:
    nan_origin = origin(dict(enumerate(ranks)), 1)
    assert nan_origin is not None
    assert nan_origin.ranks == guilty
    assert text in nan_origin.text


def test_each_step_has_its_own() -> None:
    nan_origin = origin({0: layout(None, met(5)), 1: layout(met(1), None)}, 2)
    assert nan_origin is not None
    assert nan_origin.ranks == (0,)


def test_too_little_was_recorded() -> None:
    assert origin({0: LayoutRecord(), 1: LayoutRecord()}, 1) is None
    assert origin({0: layout(None), 1: layout()}, 1) is None
