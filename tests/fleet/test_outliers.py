import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_doctor.fleet.outliers import figures, outliers


def test_half_bad_values_do_not_bend_the_rule() -> None:
    values = [100.0] * 6 + [10.0] * 3
    assert [outlier.position for outlier in outliers(values, worse_above=False)] == [6, 7, 8]


@pytest.mark.parametrize("values", [[1.0, 100.0, 1.0], [100.0, 101, 99, 95], [0.0] * 5])
def test_few_or_close_values_have_none(values: list[float]) -> None:
    assert outliers(values, worse_above=False) == []


def test_a_better_value_is_no_outlier() -> None:
    assert outliers([10.0, 10, 10, 10, 50], worse_above=False) == []
    assert outliers([10.0, 10, 10, 10, 1], worse_above=True) == []


def test_small_times_are_noise() -> None:
    assert outliers([0.001, 0.001, 0.001, 0.05], worse_above=True) == []
    assert len(outliers([1.0, 1.0, 1.0, 3.0], worse_above=True)) == 1


def test_only_times_and_rates_are_compared() -> None:
    values = {"busbw_gbps": 3, "count": 4, "name": "x", "in": {"first_s": 1.5, "ok_s": True}}
    assert list(figures(values)) == [("busbw_gbps", 3.0), ("in.first_s", 1.5)]


@given(st.lists(st.floats(0, 1e12), max_size=30), st.booleans())
def test_at_most_half_stand_out(values: list[float], worse_above: bool) -> None:
    assert 2 * len(outliers(values, worse_above=worse_above)) <= len(values)
