from __future__ import annotations

import pytest
from hypothesis import given

from ascend_doctor.facts import Snapshot
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.render import issue
from ascend_doctor.render.documented import Documented, nearest_rows
from ascend_doctor.render.formats.html import render
from tests.checks.machine import dist, healthy, install, packages, without
from tests.fleet.nodes import node
from tests.render.test_html import Page
from tests.test_facts import snapshots

CATALOG = Catalog()


def show(facts: Snapshot) -> Documented:
    documented = nearest_rows(facts, CATALOG, "npu")
    assert documented is not None
    return documented


def test_the_row_with_the_fewest_differences_stands_first() -> None:
    documented = show(healthy())
    fits = [
        [line.cells[at].fits for line in documented.lines if line.cells[at].range_text]
        for at in range(len(documented.stacks))
    ]
    assert [fit.count(False) for fit in fits] == sorted(fit.count(False) for fit in fits)
    assert len(documented.stacks) == 3


def test_each_component_is_compared_in_its_own_scheme() -> None:
    documented = show(install(healthy(), version="9.1.0"))
    by_name = {line.component: line for line in documented.lines}
    expected = {stack.id: cell for stack, cell in
              zip(documented.stacks, by_name["cann"].cells, strict=True)}  # fmt: skip
    assert by_name["cann"].here == "9.1.0"
    assert expected["mindspeed-26.1-mcore-0.12.1"] == ("9.1.0", True)
    assert expected["mindspeed-26.0-mcore-0.12.1"] == ("9.0.0", False)


def test_what_could_not_be_told_is_neither() -> None:
    documented = show(without(healthy(), "cann"))
    (cann,) = (line for line in documented.lines if line.component == "cann")
    assert cann.here == ""
    assert {cell.fits for cell in cann.cells} == {None}
    odd = show(packages(healthy(), dist("torch", "nightly")))
    (torch,) = (line for line in odd.lines if line.component == "torch")
    assert {cell.fits for cell in torch.cells} == {None}


def test_without_a_stack_there_is_nothing_to_compare() -> None:
    assert nearest_rows(Snapshot(), CATALOG, "npu") is None


def test_the_page_says_it_in_words_and_signs() -> None:
    text = render(node("n", snapshot=install(healthy(), version="9.1.0")))
    assert "stack" in Page(text).ids
    for part in ("✗", "differs:", "fits:", "MindSpeed 26.1.0"):
        assert part in text


@pytest.mark.slow
@given(facts=snapshots())
def test_no_snapshot_breaks_a_page(facts: Snapshot) -> None:
    report = node("n", snapshot=facts)
    assert Page(render(report)).fetched == ["data:,"]
    assert issue.render(report)
