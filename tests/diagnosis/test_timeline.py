"""What each rank says first, in the order of the clocks, and whom it waits for."""

from tests.render.test_diagnosis_html import of_job


def test_ranks_stand_in_the_order_in_which_they_failed() -> None:
    events = of_job().timeline
    assert [event.rank for event in events] == [1, 0, 2, 3]
    assert events[0].failure == "npu-oom-torch"
    assert events[0].after == 0.0
    assert events[1].after == 597.0
    assert events[1].waits_for == ("1",)
