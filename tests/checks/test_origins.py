import pytest

from ascend_doctor.checks.probes.nan_origin import origin
from ascend_doctor.probe_records.training import LayoutRecord, NotFinite
from tests.present import present


def layout(*met: NotFinite | None, stage: int = 0, device: str = "cpu") -> LayoutRecord:
    """One rank's record, one entry a step."""
    return LayoutRecord(stage=stage, device=device, not_finite=list(met))


def see_not_finite(event: int, how: str = "result", *, forward: int = 1) -> NotFinite:
    return NotFinite(forward=forward, event=event, module="experts", how=how)


FIRST = ", in forward pass 1"


@pytest.mark.parametrize(
    ("ranks", "guilty", "text"),
    [
        # A row-parallel layer of the other rank gets it later.
        (
            (layout(see_not_finite(9)), layout(see_not_finite(5))),
            (1,),
            f"it began on rank 1, in experts{FIRST}",
        ),
        (
            (layout(see_not_finite(5)), layout(see_not_finite(5))),
            (0, 1),
            f"it began on ranks 0, 1, in experts{FIRST}",
        ),
        (
            (layout(None), layout(see_not_finite(5, forward=3))),
            (1,),
            "in experts, in forward pass 3",
        ),
        (
            (layout(see_not_finite(2, forward=2)), layout(see_not_finite(9))),
            (1,),
            "rank 1, in experts",
        ),
        (
            (layout(see_not_finite(9)), layout(see_not_finite(7, "sent"))),
            (1,),
            "in what experts gives to the other",
        ),
        (
            (layout(see_not_finite(9, "between")), layout(None)),
            (0,),
            "in experts, between the modules",
        ),
        (
            (layout(see_not_finite(9, "weight")), layout(None)),
            (0,),
            "in a weight of experts, before the step",
        ),
        # The second stage meets it at its start, after the first one's end.
        (
            (layout(see_not_finite(9)), layout(see_not_finite(2, "received"), stage=1)),
            (0,),
            "rank 0, in experts",
        ),
        (
            (layout(None), layout(see_not_finite(2, "received"), stage=1)),
            (1,),
            "from the stage before",
        ),
        ((layout(None), layout(None)), (), "it began in the backward pass"),
        (
            (layout(see_not_finite(9), device="npu:0"), layout(see_not_finite(5), device="npu:1")),
            (1,),
            "it began on rank 1 (npu:1), in experts",
        ),
    ],
)
def test_the_earliest_is_where_it_began(
    ranks: tuple[LayoutRecord, ...], guilty: tuple[int, ...], text: str
) -> None:
    nan_origin = present(origin(dict(enumerate(ranks)), 1))
    assert nan_origin.ranks == guilty
    assert text in nan_origin.text


def test_too_little_was_recorded() -> None:
    assert origin({0: LayoutRecord(), 1: LayoutRecord()}, 1) is None
    assert origin({0: layout(None), 1: layout()}, 1) is None
