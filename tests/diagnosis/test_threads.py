from __future__ import annotations

import pytest

from tests.diagnosis.confusion import false_alarms, main, rows, share
from tests.diagnosis.logs import catalog


@pytest.fixture(scope="module")
def found() -> list[tuple[str, str, str]]:
    return rows()


def test_the_set_is_large_enough_and_names_what_there_is(
    found: list[tuple[str, str, str]],
) -> None:
    labels = [label for _, label, _ in found]
    assert sum(label != "none" for label in labels) >= 60
    assert labels.count("none") >= 15
    assert set(labels) <= {*catalog().failures, "unknown", "none"}
    assert all(source.startswith("https://") for source, _, _ in found)


def test_nine_of_ten_root_causes_are_right(found: list[tuple[str, str, str]]) -> None:
    assert share(found) >= 0.9


def test_so_are_those_that_the_catalogue_has_not_learnt_from() -> None:
    found = rows("later")
    assert len(found) >= 20
    assert share(found) >= 0.9


def test_no_healthy_log_has_a_fatal_finding(found: list[tuple[str, str, str]]) -> None:
    assert false_alarms(found) == []


@pytest.mark.slow
def test_the_table_can_be_printed(capsys: pytest.CaptureFixture[str]) -> None:
    main()
    assert "% right" in capsys.readouterr().out
