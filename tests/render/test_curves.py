from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_doctor.facts import Snapshot
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.probe_results import ProbeResult, ProbeRun
from ascend_doctor.render.curves import HEIGHT, LEFT, TOP, WIDTH, Chart, charts

CATALOG = Catalog()


def rates(*busses: float) -> dict[str, dict[str, float]]:
    return {str(1024 * 4**number): {"busbw": rate} for number, rate in enumerate(busses)}


def draw_charts(
    table: Any, *, chip: str = "Ascend910B2", ranks: int = 8, nodes: int = 1, **more: Any
) -> list[Chart]:
    run = ProbeRun(
        probe="bandwidth",
        world_size=ranks,
        ranks=tuple(
            ProbeResult(rank=rank, host=f"h{rank % nodes}", values={"rates": table, "name": chip})
            for rank in range(ranks)
        ),
        **{"device": "npu", **more},
    )
    return list(charts(Snapshot(probes=(run,)), CATALOG))


def test_a_line_a_collective_and_a_dot_a_size() -> None:
    (chart,) = draw_charts({"all-reduce": rates(10, 50, 100), "broadcast": rates(5, 20)})
    assert chart.sizes == ["1 KiB", "4 KiB", "16 KiB"]
    reduce, broadcast = chart.lines
    assert (reduce.name, reduce.rates) == ("all-reduce", [10, 50, 100])
    assert broadcast.rates == [5, 20, None]
    # 196 of the link is above all, so 200 is at the top.
    assert chart.up[-1] == (TOP, "200")
    assert reduce.dots == [
        (LEFT, TOP + HEIGHT * 0.95),
        (LEFT + WIDTH / 2, TOP + HEIGHT * 0.75),
        (LEFT + WIDTH, TOP + HEIGHT * 0.5),
    ]
    assert reduce.path.count("L") == 2


@pytest.mark.parametrize(
    ("chip", "ranks", "nodes", "limit", "link"),
    [
        ("Ascend910B2", 8, 1, "196", "HCCS, by third parties"),
        ("Ascend910B2", 2, 1, "28", "28 to each other rank"),
        ("Ascend910B2", 16, 2, "25", "RoCE, as seen"),
        ("Ascend910_9391", 16, 1, "196", "HCCS, by a paper"),
    ],
)
def test_the_figure_of_the_links_that_are_used(
    chip: str, ranks: int, nodes: int, limit: str, link: str
) -> None:
    (chart,) = draw_charts({"all-reduce": rates(1, 2)}, chip=chip, ranks=ranks, nodes=nodes)
    assert chart.limit is not None
    assert chart.limit.label == limit
    assert link in chart.caption


@pytest.mark.parametrize(
    ("chip", "more"), [("Ascend310P3", {}), ("", {}), ("Ascend910B2", {"device": "cpu"})]
)
def test_no_figure_is_made_up(chip: str, more: dict[str, Any]) -> None:
    (chart,) = draw_charts({"all-reduce": rates(1, 2)}, chip=chip, **more)
    assert chart.limit is None
    assert "No figure is documented" in chart.caption


def test_a_simulated_run_says_nothing_about_links() -> None:
    (chart,) = draw_charts({"all-reduce": rates(1, 2)}, simulated=True)
    assert chart.simulated
    assert "simulated" in chart.caption


def test_one_size_is_no_curve() -> None:
    assert draw_charts({"all-reduce": rates(1)}) == []


values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.dictionaries(st.text() | st.sampled_from(["1", "4", "busbw"]), inner),
    max_leaves=12,
)


@pytest.mark.slow
@given(table=values)
def test_no_record_raises(table: Any) -> None:
    for chart in draw_charts(table):
        for line in chart.lines:
            assert all(TOP <= y <= TOP + HEIGHT for _, y in line.dots)
